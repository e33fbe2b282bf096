"""Changes of VMs and failed migrations, for which OpenNebula splits history records.

A changed running VM pays as an unchanged one, because its guest does not restart. A changed VM that
is off gets ever more records, and still pays for its running time.
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
    """Return the charge of a VM whose memory grows in each period, or stays."""

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
    """This holds in markets that charge shares and in those that charge use."""
    assert paid(strategy, changes=True) == pytest.approx(paid(strategy, changes=False), rel=0.001)


def paid_while_migrating(strategy: str | None, *, fails: bool) -> float:
    """Return the charge of a VM with a failed migration in each period, or with none."""

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
def test_a_failed_migration_costs_nothing(strategy: str | None) -> None:
    """The guest continues on its source host."""
    tried = paid_while_migrating(strategy, fails=True)
    assert tried == pytest.approx(paid_while_migrating(strategy, fails=False), rel=0.05)


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
        found = arena.play({"eve": play}, PERIODS)["eve"]
    finally:
        arena.close()
    assert found.got_something
    assert found.price_ratio >= LEAST, (found.price_ratio, found)
