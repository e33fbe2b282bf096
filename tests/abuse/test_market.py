"""No tenant gets a core-hour for less than honest tenants pay, or makes them pay beyond their bids.

`make test` plays each strategy for a quarter of an hour of the market's time, `make soak` for two
hours.
"""

import os

import pytest

from merkatd.market.price import PriceRule
from tests.abuse.arena import Arena, Outcome, Play
from tests.abuse.strategies import STRATEGIES

PERIODS = 120 if "MERKAT_SOAK" in os.environ else 15
LEAST = 0.95
"""Of what a core-second costs honest tenants in the same time."""


def played(strategy: Play, rule: PriceRule, periods: int = PERIODS) -> Outcome:
    """What came of a strategy."""
    arena = Arena(rule)
    try:
        return arena.play(strategy, periods)
    finally:
        arena.close()


@pytest.mark.parametrize("rule", PriceRule)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_gains_nothing(name: str, rule: PriceRule) -> None:
    """It pays as much for a core-second as others, and others pay their bids at most."""
    found = played(STRATEGIES[name], rule)
    assert not found.got_something or found.part >= LEAST, found
    assert found.fair_paid <= found.fair_bids * 1.001, found


def test_there_are_enough_strategies() -> None:
    """Two of them are fair."""
    assert len(STRATEGIES) >= 27
