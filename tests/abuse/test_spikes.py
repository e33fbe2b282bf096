"""A short price peak made by a tenant raises the cost of others' restarts to their bids at most."""

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import PERIOD_S, Arena, Player
from tests.abuse.listed import Moves
from tests.lengths import SOAK, shorten

PERIODS = shorten(8, 5)


@pytest.mark.parametrize("bid", [20_000.0, 40_000.0] if SOAK else [40_000.0])
def test_restarted_vms_cost_no_more_than_their_bids_after_a_price_peak(bid: float) -> None:
    """Each owner restarts its VM once; the peak ends before the next observation."""
    arena = Arena(PriceRule.CLEARING)

    def eve(me: Player) -> Moves:
        vm = me.vm(1.0)
        yield 3 * PERIOD_S - 5
        me.set(vm, MERKAT_BID_CPU=bid)
        yield 10
        for action in ("poweroff-hard", "resume"):
            for honest_vm in arena.honest:
                arena.bench.raw("one.vm.action", action, honest_vm)
            yield 5
        me.act(vm, "poweroff-hard")
        me.set(vm, MERKAT_BID_CPU=1)
        while True:
            yield PERIOD_S

    try:
        outcome = arena.play({"eve": eve}, PERIODS)["eve"]
    finally:
        arena.close()
    assert outcome.fair_paid <= 1.001 * outcome.fair_bids
