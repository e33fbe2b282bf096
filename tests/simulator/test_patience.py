"""What an application offers, and what it reads in the book."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.policies.patience import (
    ClaimBook,
    CpuNeed,
    PatienceSettings,
    limit_price,
    may_start,
    must_yield,
)

CALM = PatienceSettings(horizon_s=3600.0, running_factor=2.0)


def offer(
    work_s: float,
    left_s: float,
    means: float = 600.0,
    *,
    temper: PatienceSettings = CALM,
    capacity: float = 1e9,
) -> float:
    """Of an application of 10 units, in periods of 60 s; a small part of the market."""
    need = CpuNeed(means=means, units=10.0, capacity=capacity, work_s=work_s, left_s=left_s)
    return limit_price(need, 60.0, temper)


def test_without_time_to_spare_all_money_goes_into_the_work() -> None:
    """600 credits for 10 periods of 10 units."""
    assert offer(600.0, 600.0) == 6.0


def test_money_is_spread_over_the_time_that_is_left() -> None:
    """Twice the time, half of the offer; nothing once it is too late."""
    assert offer(600.0, 1200.0) == pytest.approx(3.0)
    assert offer(600.0, 0.0) == 0.0


def test_deadlines_behind_the_horizon_are_discounted() -> None:
    """Twice as far as the horizon: a half of what the time left makes of it."""
    assert offer(600.0, 7200.0) == pytest.approx(6.0 * (600 / 7200) * (3600 / 7200))
    assert offer(600.0, 7200.0, temper=PatienceSettings(horizon_s=0.0)) == 6.0


def test_who_needs_much_of_the_market_hurries() -> None:
    """Half of the market, half of the haste: a quarter of the time is not counted on."""
    temper = replace(CALM, haste=0.5)
    hurried = offer(600.0, 1600.0, temper=temper, capacity=20.0)
    assert hurried == pytest.approx(offer(600.0, 1200.0))
    # The deadline itself is no nearer, and no offer is above all its money.
    assert offer(600.0, 620.0, temper=temper, capacity=20.0) == 6.0


def test_a_period_is_the_least_that_is_paid() -> None:
    """A job of a second offers what one of a minute does."""
    assert offer(1.0, 1.0) == offer(60.0, 60.0)


@settings(deadline=None)
@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(0, 1e6), st.sampled_from([0.0, 3600.0]))
def test_an_offer_can_always_be_paid(
    work_s: float, left_s: float, means: float, horizon_s: float
) -> None:
    """For all of the work that can still be done."""
    temper = PatienceSettings(horizon_s=horizon_s)
    price = offer(work_s, left_s, means, temper=temper, capacity=10.0)
    assert price * 10.0 * max(min(work_s, left_s) / 60.0, 1.0) <= means * (1 + 1e-9) + 1e-9


def test_the_book_says_what_is_left_by_those_who_pay_as_much() -> None:
    """Equal offers came first."""
    book = ClaimBook(100.0, [(1.0, 40.0), (3.0, 30.0), (2.0, 20.0)])
    assert [book.room_above(price) for price in (0.5, 1.0, 1.5, 2.5, 9.0)] == [
        10.0,
        10.0,
        50.0,
        70.0,
        100.0,
    ]
    assert may_start(book, 1.5, 50.0)
    assert not may_start(book, 1.0, 50.0)


def test_the_least_makes_room_when_there_is_too_little() -> None:
    """Nobody else, and not before."""
    book = ClaimBook(100.0, [(1.0, 40.0), (3.0, 30.0)])
    assert not must_yield(book, 1.0)
    book.claim(2.0, 50.0)
    assert must_yield(book, 1.0)
    assert not must_yield(book, 2.0)
    book.withdraw(1.0, 40.0)
    assert not must_yield(book, 2.0)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 60)), max_size=10))
def test_all_who_must_yield_do_so_at_once(rows: list[tuple[int, int]]) -> None:
    """One look is as good as many: the rest fits, and nobody went who could have stayed last."""
    limits = {float(limit): float(units) for limit, units in rows}
    book = ClaimBook(100.0, limits.items())
    stay = {limit: units for limit, units in limits.items() if not must_yield(book, limit)}
    assert sum(stay.values()) <= 100.0
    gone = sorted(limits.keys() - stay.keys())
    if gone:
        assert sum(stay.values()) + limits[gone[-1]] > 100.0


claims = st.lists(st.tuples(st.floats(0.1, 9.0), st.floats(1.0, 50.0)), max_size=12)


@settings(deadline=None)
@given(claims, st.floats(0.0, 10.0))
def test_room_is_capacity_less_what_is_claimed_above(
    rows: list[tuple[float, float]], price: float
) -> None:
    """Whatever the order in which claims came."""
    book = ClaimBook(200.0)
    for row in rows:
        book.claim(*row)
    above = sum(units for limit, units in rows if limit >= price)
    assert abs(book.room_above(price) - (200.0 - above)) < 1e-6
