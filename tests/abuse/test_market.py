"""No tenant pays less than the honest price of a core-hour or raises others above their bids.

`make test` plays similar strategies together, for six minutes of the market's time under one of the
two price rules; `make soak` plays each alone for four hours under both.
"""

from collections.abc import Mapping
from functools import cache

import pytest

from merkatd.market.price import PriceRule
from tests.abuse import bids, evasions  # noqa: F401 - the imports list the strategies
from tests.abuse.arena import Arena
from tests.abuse.counting import Outcome
from tests.abuse.listed import STRATEGIES
from tests.lengths import SOAK, pair, shorten
from tests.long_texts import lower_limit

BEGIN = 2
"""The first periods of several strategies, in which their VMs are placed; they do not count."""
PERIODS = shorten(240, 8)
LEAST = 0.95
"""The least part of the honest tenants' price of a core-second."""
TOGETHER = (
    (
        *("fair", "cautious", "phantom", "phantoms", "bids_high_early_and_low_late"),
        *("bids_low_and_high_in_turns", "bids_nonsense", "splits", "merges", "rounds_down"),
        "bids_for_memory_alone",
    ),
    (
        *("floor_for_nothing", "floor_remade", "floor_with_money_parked", "floor_above_the_bid"),
        *("floor_of_a_phantom", "claim_in_turns", "pinned"),
    ),
    (
        *("between_looks", "suspends_before_each_look", "off_before_each_look"),
        *("stops_before_each_look", "reboots_after_each_look", "off_and_on_after_each_look"),
        "made_in_turns",
    ),
    (
        *("resized_at_each_look", "reconfigured_at_each_look", "beside_a_slow_copy"),
        *("not_to_be_moved", "resized_after_each_look"),
    ),
    (
        *("moves_money", "parks_money", "ends_its_platforms", "ends_platforms_of_the_poor"),
        *("bids_the_same_credits_often", "spends_before_the_renewal", "remade_before_arrears"),
    ),
    ("refunded_while_money_is_moved",),
    ("refunded_after_its_platform_ended",),
    (
        *("unmanaged", "unmanaged_from_the_start", "of_another_market", "of_another_owner"),
        *("unreadable", "unreadable_while_looked_at"),
    ),
)
"""Strategies that do not disturb each other, such as by the times that OpenNebula's states last."""
GROUPS = tuple((name,) for name in STRATEGIES) if SOAK else TOGETHER
GAMES = [(name, group, rule) for group, rule in pair(GROUPS, tuple(PriceRule)) for name in group]


@cache
def play_group(group: tuple[str, ...], rule: PriceRule) -> Mapping[str, Outcome]:
    """Play strategies of different tenants on one host; return their outcomes."""
    arena, strategies = Arena(rule), {name: STRATEGIES[name] for name in group}
    try:
        with lower_limit():
            return arena.play(strategies, PERIODS, uncounted=BEGIN if len(group) > 1 else 0)
    finally:
        arena.close()


@pytest.mark.parametrize(("name", "group", "rule"), GAMES, ids=[f"{n}-{r}" for n, _, r in GAMES])
def test_a_strategy_gains_nothing(name: str, group: tuple[str, ...], rule: PriceRule) -> None:
    """It pays the honest price of a core-second, and others pay their bids at most."""
    outcome = play_group(group, rule)[name]
    assert not outcome.got_something or outcome.price_ratio >= LEAST, (outcome.price_ratio, outcome)
    assert outcome.fair_paid <= outcome.fair_bids * 1.001, outcome


def test_an_honest_new_tenant_pays_the_same_price() -> None:
    """This validates the measure; a VM's first minute is charged like every other."""
    arena = Arena(PriceRule.CLEARING)
    try:
        outcome = arena.play({"fair": STRATEGIES["fair"]}, 4)["fair"]
    finally:
        arena.close()
    given = 0.01 * outcome.ran_s / outcome.core_s  # which `price_ratio` counts as given away
    assert 1.0 <= outcome.price_ratio <= (1 + 1 / 4) / (1 - given)


def test_every_strategy_is_played_once() -> None:
    """Two of them are fair."""
    played = [name for group in TOGETHER for name in group]
    assert sorted(played) == sorted(STRATEGIES)
