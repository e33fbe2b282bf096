"""A price that a tenant raises for one look makes others' restarts no dearer than their bids."""

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

PERIODS = 8


@pytest.mark.parametrize("bid", [20_000.0, 40_000.0])
def test_vms_that_start_again_cost_what_they_cost_before_the_spike(bid: float) -> None:
    """Each owner restarts its VM once; the spike is gone by the next look."""
    arena = Arena(PriceRule.CLEARING)

    def eve(me: Player) -> Moves:
        vm = me.vm(1.0)
        yield 3 * PERIOD_S - 5
        me.set(vm, MERKAT_BID_CPU=bid)
        yield 10
        for action in ("poweroff-hard", "resume"):
            for one in arena.honest:
                arena.bench.raw("one.vm.action", action, one)
            yield 5
        me.act(vm, "poweroff-hard")
        me.set(vm, MERKAT_BID_CPU=1)
        while True:
            yield PERIOD_S

    try:
        found = arena.play({"eve": eve}, PERIODS)["eve"]
    finally:
        arena.close()
    assert found.fair_paid <= 1.001 * found.fair_bids
