"""No tenant gets a core-hour for less than honest tenants pay, or makes them pay beyond their bids.

In `make test` each strategy is played for eight minutes of the market time under one of the two
price rules; in `make soak` for four hours under each.
"""

from functools import cache

import pytest

from merkatd.market.price import PriceRule
from tests.abuse import bids, evasions  # noqa: F401 - they list their strategies
from tests.abuse.arena import Arena, Outcome
from tests.abuse.listed import STRATEGIES
from tests.lengths import pair, shorten

PERIODS = shorten(240, 8)
LEAST = 0.95
"""Of what a core-second costs honest tenants."""
GAMES = pair(STRATEGIES, tuple(PriceRule))


@cache
def played(name: str, rule: PriceRule) -> Outcome:
    """What came of a strategy."""
    arena = Arena(rule)
    try:
        return arena.play({name: STRATEGIES[name]}, PERIODS)[name]
    finally:
        arena.close()


@pytest.mark.parametrize(("name", "rule"), GAMES)
def test_a_strategy_gains_nothing(name: str, rule: PriceRule) -> None:
    """It pays as much for a core-second as others, and others pay their bids at most."""
    found = played(name, rule)
    assert not found.got_something or found.part >= LEAST, (found.part, found)
    assert found.fair_paid <= found.fair_bids * 1.001, found


def test_an_honest_newcomer_pays_what_others_pay() -> None:
    """The measure itself; a VM's first minute is charged like every other."""
    found = played("fair", PriceRule.CLEARING)
    given = 0.01 * found.ran_s / found.core_s  # which `part` counts as given away
    assert 1.0 <= found.part <= (1 + 1 / PERIODS) / (1 - given)


def test_there_are_enough_strategies() -> None:
    """Two of them are fair."""
    assert len(STRATEGIES) >= 27
