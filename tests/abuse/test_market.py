"""No tenant pays less than the honest price of a core-hour or raises others above their bids.

`make test` plays each strategy for eight minutes of the market's time under one of the two price
rules; `make soak` plays four hours under each.
"""

from functools import cache

import pytest

from merkatd.market.price import PriceRule
from tests.abuse import bids, evasions  # noqa: F401 - the imports list the strategies
from tests.abuse.arena import Arena, Outcome
from tests.abuse.listed import STRATEGIES
from tests.lengths import pair, shorten

PERIODS = shorten(240, 8)
LEAST = 0.95
"""The least part of the honest tenants' price of a core-second."""
GAMES = pair(STRATEGIES, tuple(PriceRule))


@cache
def play_strategy(name: str, rule: PriceRule) -> Outcome:
    """Play a strategy; return its outcome."""
    arena = Arena(rule)
    try:
        return arena.play({name: STRATEGIES[name]}, PERIODS)[name]
    finally:
        arena.close()


@pytest.mark.parametrize(("name", "rule"), GAMES)
def test_a_strategy_gains_nothing(name: str, rule: PriceRule) -> None:
    """It pays the honest price of a core-second, and others pay their bids at most."""
    found = play_strategy(name, rule)
    assert not found.got_something or found.price_ratio >= LEAST, (found.price_ratio, found)
    assert found.fair_paid <= found.fair_bids * 1.001, found


def test_an_honest_new_tenant_pays_the_same_price() -> None:
    """This validates the measure; a VM's first minute is charged like every other."""
    found = play_strategy("fair", PriceRule.CLEARING)
    given = 0.01 * found.ran_s / found.core_s  # which `part` counts as given away
    assert 1.0 <= found.price_ratio <= (1 + 1 / PERIODS) / (1 - given)


def test_enough_strategies_are_listed() -> None:
    """Two of them are fair."""
    assert len(STRATEGIES) >= 27
