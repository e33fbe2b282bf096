"""A VM that is changed while it runs pays as if it were not: its guest does not start again.

OpenNebula divides its history record there, as it does where a VM is off in between.
"""

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import FAIR_BID, PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

PERIODS = 5


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
