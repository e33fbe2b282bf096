"""Changes of VMs and failed migrations, for which OpenNebula splits history records.

A changed running VM pays as an unchanged one, because its guest does not restart. A changed VM that
is off gets ever more records, and still pays for its running time.
"""

from collections.abc import Callable

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.market.price import PriceRule
from tests.abuse.arena import FAIR_BID, PERIOD_S, Arena, Play, Player
from tests.abuse.listed import Moves
from tests.lengths import shorten

PERIODS = shorten(8, 5)
CHANGES = 520
LEAST = 0.95


def grow(me: Player, vm: int) -> None:
    """Add memory to the VM."""
    size = me.arena.bench.vm(vm).memory_mib + 1
    me.ask("one.vm.resize", vm, f"MEMORY={size}", False)
    assert me.arena.state(vm) == "HOTPLUG_RESIZE"


def fail_to_migrate(me: Player, vm: int) -> None:
    """Start a migration that fails."""
    me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="MIGRATE", count=1))
    other = 1 - me.arena.host_of(vm)
    me.arena.bench.ok("one.vm.migrate", vm, other, True, False, -1, 0)


def leave_alone(_me: Player, _vm: int) -> None:
    """Do nothing."""


def play_both(arena: Arena, change: Callable[[Player, int], None]) -> tuple[float, float]:
    """Return the charges of a VM that is changed in each period and of one that is left alone."""

    def player(act: Callable[[Player, int], None]) -> Play:
        def play(me: Player) -> Moves:
            vm = me.vm(FAIR_BID)
            yield PERIOD_S + 5
            while True:
                act(me, vm)
                yield PERIOD_S

        return play

    try:
        outcomes = arena.play({"eve": player(change), "cyd": player(leave_alone)}, PERIODS)
    finally:
        arena.close()
    return outcomes["eve"].paid, outcomes["cyd"].paid


@pytest.mark.parametrize("strategy", [None, "groups"])
def test_a_change_of_a_running_vm_costs_nothing(strategy: str | None) -> None:
    """This holds in markets that charge shares and in those that charge use."""
    changed, left = play_both(Arena(PriceRule.CLEARING, strategy=strategy), grow)
    assert changed == pytest.approx(left, rel=0.01)


@pytest.mark.parametrize("strategy", [None, "groups"])
def test_a_failed_migration_costs_nothing(strategy: str | None) -> None:
    """The guest continues on its source host."""
    arena = Arena(PriceRule.CLEARING, hosts=2, strategy=strategy)
    tried, left = play_both(arena, fail_to_migrate)
    assert tried == pytest.approx(left, rel=0.05)


def test_many_changes_of_a_powered_off_vm_hide_no_running_time() -> None:
    """The VM runs only between observations, and hundreds of records follow each time."""

    def play(me: Player) -> Moves:
        vm = me.vm(3 * FAIR_BID)
        yield PERIOD_S - 10
        while True:
            me.act(vm, "poweroff-hard")
            yield 5
            for _ in range(CHANGES):
                me.ask("one.vm.resize", vm, "MEMORY=512", False)
            yield 10
            me.act(vm, "resume")
            yield PERIOD_S - 15

    arena = Arena(PriceRule.CLEARING)
    try:
        outcome = arena.play({"eve": play}, PERIODS)["eve"]
    finally:
        arena.close()
    assert outcome.got_something
    assert outcome.price_ratio >= LEAST, (outcome.price_ratio, outcome)
