"""If claims take a whole host, no bid sets the price of a core, and starts are charged still."""

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import CORES, PERIOD_S, Arena, Player
from tests.abuse.listed import Moves

BID = 5000.0
PERIODS = 5


def claims_all(me: Player) -> Moves:
    """Pay for every core without further actions."""
    me.vm(BID, MERKAT_MIN_CPU=CORES * 100)
    while True:
        yield PERIOD_S


def claims_all_and_starts(me: Player) -> Moves:
    """Do the same, and restart the guest in each period."""
    vm = me.vm(BID, MERKAT_MIN_CPU=CORES * 100)
    yield PERIOD_S
    while True:
        me.act(vm, "poweroff-hard")
        yield 5
        me.act(vm, "resume")
        yield PERIOD_S - 5


@pytest.mark.parametrize(("play", "least"), [(claims_all, 1.0), (claims_all_and_starts, 0.85)])
def test_a_claim_to_a_whole_host_is_charged_in_each_period(play: object, least: float) -> None:
    """The charges begin with the period of the guest's start and last while it runs."""
    arena = Arena(PriceRule.CLEARING)
    try:
        outcome = arena.play({"eve": play}, PERIODS)["eve"]  # type: ignore[dict-item]
    finally:
        arena.close()
    assert outcome.paid >= least * BID * (PERIODS - 1), outcome
    assert outcome.fair_paid <= outcome.fair_bids, outcome
