"""The limit of a patient application's order: what it is worth, and what its credits pay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.policies.deadline import Funds
from merkatd.policies.patience import PatienceSettings, funded_s, most_credits, share_of
from merkatd.policies.suspension import REST

PERIOD_S = 60.0
TEMPER = PatienceSettings()

amounts = st.floats(0.0, 1e6)
times_s = st.floats(0.0, 1e6)
shares = st.floats(0.0, 1.0)


def limit(
    purse: Funds, work_s: float, left_s: float, share: float = 0.1, least: float = 0.0
) -> float:
    """Return the limit of an application."""
    return most_credits(purse, share, least, work_s, left_s, PERIOD_S, TEMPER)


@given(amounts, amounts, amounts, times_s, times_s, shares)
def test_its_credits_pay_for_a_rest_or_all_its_work(
    credits_: float, renewal: float, least: float, work_s: float, left_s: float, share: float
) -> None:
    """Later replenishments don't count for that."""
    purse = Funds(credits=credits_, renewal=renewal, renewal_s=3600.0)
    found = limit(purse, work_s, left_s, share, least)
    periods = min(max(work_s / PERIOD_S, 1.0), REST)
    assert 0.0 <= found * periods <= credits_ * (1 + 1e-9)


@given(amounts, st.floats(60.0, 1e5), times_s, times_s, st.floats(0.01, 1.0))
def test_it_rises_as_the_deadline_comes_near(
    credits_: float, work_s: float, some_s: float, more_s: float, share: float
) -> None:
    """All its credits over its work, once it has no time to spare."""
    purse = Funds(credits=credits_)
    later = limit(purse, work_s, work_s + some_s + more_s, share)
    sooner = limit(purse, work_s, work_s + some_s, share)
    assert later <= sooner * (1 + 1e-9)
    assert limit(purse, work_s, work_s, share) >= sooner * (1 - 1e-9)


def test_it_waits_for_no_price_below_the_reserve_price() -> None:
    """If it can pay that for all its work; otherwise it keeps its credits."""
    day_s, hour_s = 86_400.0, 3_600.0
    waits = limit(Funds(credits=100.0), hour_s, day_s)
    assert waits < 0.01
    assert limit(Funds(credits=100.0), hour_s, day_s, least=1.5) == pytest.approx(1.5)
    assert limit(Funds(credits=89.0), hour_s, day_s, least=1.5) < 0.01
    assert limit(Funds(credits=100.0), hour_s, 0.0, least=1.5) == 0.0
    renewed = Funds(credits=20.0, renewal=10.0, renewal_s=hour_s)
    assert limit(renewed, hour_s, day_s, least=1.5) == pytest.approx(1.5)


def test_the_scarcest_good_counts() -> None:
    """A good that the market lacks counts as all of it."""
    capacity = {"cpu": 400.0, "memory": 8192.0}
    assert share_of({"cpu": 100.0, "memory": 6144.0}, capacity) == 0.75
    assert share_of({"cpu": 900.0}, capacity) == 1.0
    assert share_of({"network": 1.0}, capacity) == 1.0
    assert share_of({"network": 0.0, "cpu": 100.0}, capacity) == 0.25
    assert share_of({}, capacity) == 0.0


def test_the_least_run_is_what_its_credits_pay() -> None:
    """At most the rest of its work."""
    purse = Funds(credits=30.0)
    assert funded_s(1.0, purse, 600.0, PERIOD_S) == 600.0
    assert funded_s(6.0, purse, 600.0, PERIOD_S) == 300.0
    assert funded_s(0.0, purse, 600.0, PERIOD_S) == 0.0
