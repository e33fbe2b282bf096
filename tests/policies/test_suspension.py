"""The rule of suspensions, played against itself: what one side decides the other does not undo."""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.platforms.rules.start_conditions import (
    MarketOffer,
    StartAnswer,
    Terms,
    judge_start,
)
from merkatd.policies.deadline import Funds
from merkatd.policies.horizontal import Prices
from merkatd.policies.suspension import (
    REST,
    Case,
    can_pay,
    cost,
    payable_part,
    rest_left_s,
    spending,
    suspends,
)
from tests.lengths import shorten

NOW_S = 1_000_000.0
INTERVAL_S = 60.0
PERIODS = shorten(120, 60)
APART = 10
"""The periods in which constant prices cause at most one change."""
FULL = (200.0, 2_048.0)


def case(credits_: float = 100.0, left_s: float = 6_000.0, least_part: float | None = 0.3) -> Case:
    """A platform of two cores on a cloud of eight, at a price of 0.01 and 0.001."""
    return Case(
        purse=Funds(credits=credits_),
        left_s=left_s,
        work_s=600.0,
        least_part=least_part,
        full=FULL,
        prices=Prices(others=(0.01, 0.001), capacity=(800.0, 16_384.0)),
        interval_s=INTERVAL_S,
    )


def resumes(now: Case) -> bool:
    """Whether the daemon resumes this platform, which is suspended."""
    names = ("cpu", "memory")
    terms = Terms(
        deadline_s=None if now.left_s == inf else NOW_S + now.left_s,
        ideal_s=now.work_s,
        give_up=False,
        price_ceiling={},
        full=dict(zip(names, now.full, strict=True)),
        purse=now.purse,
        least_part=now.least_part,
        suspended_s=NOW_S - now.since_s,
    )
    offer = MarketOffer(
        now_s=NOW_S,
        interval_s=now.interval_s,
        prices=dict(zip(names, now.prices.others, strict=True)),
        capacity=dict(zip(names, now.prices.capacity, strict=True)),
    )
    return judge_start(terms, offer).answer is StartAnswer.START


@dataclass
class Played:
    """A platform under constant prices of the others: it pays, it works, it is filled up."""

    case: Case
    renewal: float
    charged: float
    """What it pays of what it can spend: bids are not always charged in full."""
    running: bool = True

    def period(self) -> bool:
        """Whether the platform is suspended or resumed in this period."""
        now, interval_s = self.case, self.case.interval_s
        change = suspends(now) if self.running else resumes(now)
        self.running ^= change
        there = spending(now.purse, now.left_s, interval_s)
        part = payable_part(there, now.full, now.prices) if self.running else 0.0
        paid = self.charged * min(there, now.purse.credits) if self.running else 0.0
        left = now.purse.credits - paid + self.renewal
        self.case = replace(
            now,
            purse=replace(now.purse, credits=left),
            left_s=max(now.left_s - interval_s, 0.0),
            work_s=None if now.work_s is None else max(now.work_s - part * interval_s, 0.0),
            since_s=0.0 if change else now.since_s + interval_s,
        )
        return change


@given(
    price=st.tuples(st.floats(1e-4, 10.0), st.floats(0.0, 0.1)),
    capacity=st.floats(100.0, 10_000.0),
    credits_=st.floats(1.0, 1e5),
    renewal=st.floats(0.0, 100.0),
    charged=st.floats(0.0, 4.0),
    left_s=st.one_of(st.just(inf), st.floats(600.0, 50_000.0)),
    work_s=st.one_of(st.none(), st.floats(60.0, 20_000.0)),
    least_part=st.one_of(st.none(), st.floats(0.05, 0.9)),
    running=st.booleans(),
)
def test_constant_prices_change_nothing_twice_in_a_rest(
    price: tuple[float, float],
    capacity: float,
    credits_: float,
    renewal: float,
    charged: float,
    left_s: float,
    work_s: float | None,
    least_part: float | None,
    running: bool,
) -> None:
    """Of every kind, with and without a deadline, an ideal run or replenishment."""
    begin = replace(
        case(credits_, left_s, least_part),
        purse=Funds(credits=credits_, renewal=renewal, renewal_s=INTERVAL_S),
        work_s=work_s,
        prices=Prices(others=price, capacity=(capacity, 20 * capacity)),
        since_s=REST * INTERVAL_S,
    )
    played = Played(begin, renewal, charged, running)
    when = [period for period in range(PERIODS) if played.period()]
    assert all(later - before >= APART for before, later in pairwise(when)), when


def costing(now: Case, part: float) -> Case:
    """Return the case with prices at which it needs this part of what it can spend."""
    there = spending(now.purse, now.left_s, now.interval_s)
    factor = part * there / cost(min(now.needed, 1.0), now.full, now.prices)
    others = tuple(price * factor for price in now.prices.others)
    return replace(now, prices=replace(now.prices, others=others))


@settings(max_examples=shorten(300, 150))
@given(
    dear=st.floats(0.7, 1.3),
    capacity=st.floats(200.0, 10_000.0),
    credits_=st.floats(1.0, 1e5),
    renewed=st.floats(0.0, 0.1),
    charged=st.floats(1.0, 4.0),
    left_s=st.floats(1_200.0, 6_000.0),
    least_part=st.one_of(st.none(), st.floats(0.05, 0.9)),
    running=st.booleans(),
)
def test_a_platform_that_can_just_pay_changes_once_in_a_rest(
    dear: float,
    capacity: float,
    credits_: float,
    renewed: float,
    charged: float,
    left_s: float,
    least_part: float | None,
    running: bool,
) -> None:
    """Near the prices that decide, a platform is suspended or resumed once in ten periods."""
    renewal = renewed * credits_
    before = replace(
        case(credits_, left_s, least_part),
        purse=Funds(credits=credits_, renewal=renewal, renewal_s=INTERVAL_S),
        work_s=0.5 * left_s,
        prices=Prices(others=(1.0, 0.1), capacity=(capacity, 20 * capacity)),
        since_s=REST * INTERVAL_S,
    )
    begin = before if before.needed <= 0.0 else costing(before, dear)
    played = Played(begin, renewal, charged, running)
    when = [period for period in range(PERIODS) if played.period()]
    assert all(later - sooner >= APART for sooner, later in pairwise(when)), when


@given(st.floats(0.1, 1e5), st.floats(1_300.0, 50_000.0), st.sampled_from([None, 0.3, 0.8]))
def test_what_was_just_suspended_is_not_resumed_at_the_same_price(
    credits_: float, left_s: float, least_part: float | None
) -> None:
    """However long it rests: resuming takes more money than going on."""
    now = case(credits_, left_s, least_part)
    if suspends(now):
        assert not resumes(replace(now, since_s=inf))


@pytest.mark.parametrize("least_part", [None, 0.3])
def test_a_platform_that_can_not_pay_is_suspended_and_one_that_can_is_resumed(
    least_part: float | None,
) -> None:
    """A tenth of the price makes the difference; a little less does not."""
    poor = case(60.0, 12_000.0, least_part)
    poor = replace(poor, work_s=4_000.0)
    assert suspends(poor)
    assert not resumes(poor)
    rich = replace(poor, prices=replace(poor.prices, others=(0.001, 0.0001)))
    assert resumes(rich)
    assert not suspends(rich)


def test_half_a_unit_costs_half_of_a_unit() -> None:
    """Units can be large; with the effect on the price, which is small here."""
    prices = Prices(others=(2.0,), capacity=(1e6,))
    assert cost(0.5, (1.0,), prices) == pytest.approx(1.0)
    assert payable_part(1.0, (1.0,), prices) == pytest.approx(0.5, rel=1e-5)


def test_a_market_can_have_less_than_a_unit() -> None:
    """Half of half a unit doubles the price of what others bid for the rest."""
    assert cost(0.5, (0.5,), Prices(others=(2.0,), capacity=(0.5,))) == pytest.approx(1.0)


def test_the_least_part_decides() -> None:
    """With the same credits a tenant of a smaller part goes on."""
    assert suspends(case(60.0, 12_000.0, 0.9))
    assert not suspends(case(60.0, 12_000.0, 0.05))


def test_resuming_takes_a_margin() -> None:
    """What just pays for going on is not enough to begin again."""
    now = case(1.0)
    while not can_pay(now):
        now = replace(now, purse=Funds(credits=now.purse.credits * 1.01))
    assert not suspends(now)
    assert not resumes(now)
    assert resumes(replace(now, purse=Funds(credits=now.purse.credits * 1.3)))


def test_a_rest_follows_each_change() -> None:
    """But for work that has less time to spare than a rest takes."""
    rich = replace(case(1e5, 12_000.0, None), since_s=60.0)
    assert rest_left_s(rich) == (REST - 1) * INTERVAL_S
    assert not resumes(rich)
    assert resumes(replace(rich, since_s=REST * INTERVAL_S))
    assert resumes(replace(rich, left_s=1_100.0))
    poor = case(1.0, 12_000.0, None)
    assert suspends(poor)
    assert not suspends(replace(poor, since_s=60.0))
    assert not suspends(replace(poor, left_s=1_100.0))


def test_work_that_is_late_runs_at_any_price() -> None:
    """Waiting can't help it."""
    assert case(0.0, 500.0, None).needed == 0.0
    assert not suspends(case(0.0, 500.0, None))
    assert resumes(case(0.0, 500.0, None))
