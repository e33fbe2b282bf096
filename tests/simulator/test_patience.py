"""Offers of an application."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.policies.patience import CpuNeed, PatienceSettings, limit_price

CALM = PatienceSettings(horizon_s=3600.0, running_factor=2.0)


def offer(
    work_s: float,
    left_s: float,
    means: float = 600.0,
    *,
    temper: PatienceSettings = CALM,
    capacity: float = 1e9,
) -> float:
    """Return the offer of an application of 10 units, in periods of 60 s, in a large market."""
    need = CpuNeed(means=means, units=10.0, capacity=capacity, work_s=work_s, left_s=left_s)
    return limit_price(need, 60.0, temper)


def test_without_spare_time_all_credits_go_into_the_work() -> None:
    """They are 600 for 10 periods of 10 units, and a running application pays twice its offer."""
    assert offer(600.0, 600.0) == 3.0
    assert offer(600.0, 600.0, temper=replace(CALM, running_factor=1.0)) == 6.0


def test_credits_are_spread_over_the_remaining_time() -> None:
    """Twice the time halves the offer; after the deadline the offer is zero."""
    assert offer(600.0, 1200.0) == pytest.approx(1.5)
    assert offer(600.0, 0.0) == 0.0


def test_deadlines_beyond_the_horizon_are_discounted() -> None:
    """At twice the horizon, the offer is half of that for the remaining time."""
    assert offer(600.0, 7200.0) == pytest.approx(3.0 * (600 / 7200) * (3600 / 7200))
    assert offer(600.0, 7200.0, temper=PatienceSettings(horizon_s=0.0)) == 3.0


def test_a_large_application_hurries() -> None:
    """With half of the market and a haste of 0.5, a quarter of the time is not counted."""
    temper = replace(CALM, haste=0.5)
    hurried = offer(600.0, 1600.0, temper=temper, capacity=20.0)
    assert hurried == pytest.approx(offer(600.0, 1200.0))
    # The deadline itself stays, and no offer exceeds all credits.
    assert offer(600.0, 620.0, temper=temper, capacity=20.0) == 3.0


def test_the_shortest_payment_is_one_period() -> None:
    """A job of a second offers as much as a job of a minute, however far its deadline is."""
    assert offer(1.0, 1.0) == offer(60.0, 60.0)
    for left_s in (90.0, 600.0, 7200.0):
        assert offer(1.0, left_s) == offer(60.0, left_s) == pytest.approx(offer(90.0, left_s))


@settings(deadline=None)
@given(st.floats(1, 1e6), st.floats(1, 1e6), st.floats(0, 1e6), st.sampled_from([0.0, 3600.0]))
def test_an_offer_can_always_be_paid(
    work_s: float, left_s: float, means: float, horizon_s: float
) -> None:
    """Even at what a running one pays, the credits suffice for all that can still be done."""
    temper = PatienceSettings(horizon_s=horizon_s)
    price = offer(work_s, left_s, means, temper=temper, capacity=10.0)
    most = temper.running_factor * price * 10.0
    assert most * max(min(work_s, left_s) / 60.0, 1.0) <= means * (1 + 1e-9) + 1e-9
