"""Changes of VMs, and migrations that fail, for which OpenNebula divides their history records.

A VM that is changed while it runs pays as if it were not: its guest does not start again. A VM that
is changed while it is off has ever more records, and still pays for the time that it ran.
"""

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.market.price import PriceRule
from tests.abuse.arena import FAIR_BID, PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

PERIODS = 8
CHANGES = 520
LEAST = 0.95


def paid(strategy: str | None, *, changes: bool) -> float:
    """What a VM costs whose memory is raised in each period, or is not."""

    def play(me: Player) -> Moves:
        vm = me.vm(FAIR_BID)
        yield PERIOD_S + 5
        while True:
            if changes:
                size = me.arena.bench.vm(vm).memory_mib + 1
                me.ask("one.vm.resize", vm, f"MEMORY={size}", False)
                assert me.arena.state(vm) == "HOTPLUG_RESIZE"
            yield PERIOD_S

    arena = Arena(PriceRule.CLEARING, strategy=strategy)
    try:
        return arena.play({"eve": play}, PERIODS)["eve"].paid
    finally:
        arena.close()


@pytest.mark.parametrize("strategy", [None, "groups"])
def test_a_change_of_a_running_vm_costs_nothing(strategy: str | None) -> None:
    """Neither where shares are charged nor where use is."""
    assert paid(strategy, changes=True) == pytest.approx(paid(strategy, changes=False), rel=0.001)


def paid_on_its_way(strategy: str | None, *, fails: bool) -> float:
    """What a VM costs that is to be migrated in each period, in vain, or never."""

    def play(me: Player) -> Moves:
        vm = me.vm(FAIR_BID)
        yield PERIOD_S + 5
        while True:
            if fails:
                me.arena.cloud.faults.add(Fault(FaultKind.FAIL, vm=vm, lcm="MIGRATE", count=1))
                other = 1 - me.arena.host_of(vm)
                me.arena.bench.ok("one.vm.migrate", vm, other, True, False, -1, 0)
            yield PERIOD_S

    arena = Arena(PriceRule.CLEARING, hosts=2, strategy=strategy)
    try:
        return arena.play({"eve": play}, PERIODS)["eve"].paid
    finally:
        arena.close()


@pytest.mark.parametrize("strategy", [None, "groups"])
def test_a_migration_that_fails_costs_nothing(strategy: str | None) -> None:
    """The guest goes on where it was."""
    tried = paid_on_its_way(strategy, fails=True)
    assert tried == pytest.approx(paid_on_its_way(strategy, fails=False), rel=0.05)


def test_many_changes_of_a_vm_that_is_off_hide_no_time_that_it_ran() -> None:
    """It runs between the looks alone, and hundreds of records follow each time."""

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
        found = arena.play({"eve": play}, PERIODS)["eve"]
    finally:
        arena.close()
    assert found.got_something
    assert found.part >= LEAST, (found.part, found)
