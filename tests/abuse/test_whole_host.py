"""Where claims take a whole host, no bid decides the price of a core; starts are charged anyway."""

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

BID = 5000.0
PERIODS = 8


def claims_all(me: Player) -> Moves:
    """It pays for every core, and is left alone."""
    me.vm(BID, MERKAT_MIN_CPU=CORES * 100)
    while True:
        yield PERIOD_S


def claims_all_and_starts(me: Player) -> Moves:
    """The same, but its guest is started anew in each period."""
    vm = me.vm(BID, MERKAT_MIN_CPU=CORES * 100)
    yield PERIOD_S
    while True:
        me.act(vm, "poweroff-hard")
        yield 5
        me.act(vm, "resume")
        yield PERIOD_S - 5


@pytest.mark.parametrize(("play", "least"), [(claims_all, 1.0), (claims_all_and_starts, 0.85)])
def test_a_claim_to_a_whole_host_is_paid_in_each_period(play: object, least: float) -> None:
    """From the one on in which its guest was started, and as long as it runs."""
    arena = Arena(PriceRule.CLEARING)
    try:
        found = arena.play({"eve": play}, PERIODS)["eve"]  # type: ignore[dict-item]
    finally:
        arena.close()
    assert found.paid >= least * BID * (PERIODS - 1), found
    assert found.fair_paid <= found.fair_bids, found
