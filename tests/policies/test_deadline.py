"""Deadlines and utilities."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.policies.deadline import (
    Funds,
    Work,
    bid_max,
    full_deadline,
    full_performance,
    grace_s,
    least_deadline_s,
    partial_deadline,
    performance,
    reference_s,
)

WORK = Work(steps=1000, done=400, ideal_step_s=2.0)


def test_the_pace_is_the_time_left_over_the_work_left() -> None:
    """600 iterations in 3,000 s."""
    assert reference_s(WORK, 3000.0) == 5.0
    judged = performance(WORK, 3000.0, step_s=4.8)
    assert judged.slow
    assert (judged.low, judged.high) == (3.75, 4.75)


def test_grace_is_the_time_to_spare() -> None:
    """600 iterations take 1,200 s at least."""
    assert grace_s(WORK, 3000.0) == 1800.0


def test_what_may_be_spent_lasts_until_the_deadline() -> None:
    """1,000 credits and 100 an hour, for two hours and four VMs, a minute at a time."""
    purse = Funds(credits=1000.0, renewal=100.0, renewal_s=3600.0)
    assert bid_max(purse, 7200.0, 60.0, 4) == pytest.approx(1200 / 120 / 4)
    assert bid_max(Funds(credits=10.0), 30.0, 60.0, 1) == 10.0
    assert bid_max(purse, 0.0, 60.0, 4) == 0.0


def test_done_is_done() -> None:
    """Nothing is left to run for."""
    assert reference_s(Work(steps=10, done=10, ideal_step_s=1.0), 100.0) == inf


@given(st.integers(0, 999), st.floats(0.1, 50.0))
def test_the_least_deadline_can_be_met(done: int, reachable_s: float) -> None:
    """And is told to who asked for an earlier one."""
    work = Work(steps=1000, done=done, ideal_step_s=2.0)
    least_s = least_deadline_s(work, reachable_s)
    assert max(reachable_s, 2.0) == pytest.approx(reference_s(work, least_s))


class TestTable1:
    """The utilities of three kinds of tenants with a budget of 100."""

    def test_full_deadline(self) -> None:
        """All or its opposite."""
        assert full_deadline(100.0, 10.0, 10.0) == 100.0
        assert full_deadline(100.0, 10.1, 10.0) == -100.0

    def test_partial_deadline(self) -> None:
        """The part of the work that was done."""
        assert partial_deadline(100.0, 10.0, 10.0, 1.0) == 100.0
        assert partial_deadline(100.0, inf, 10.0, 0.9) == 90.0

    def test_full_performance(self) -> None:
        """From the ideal to the deadline it falls through nothing in the middle."""
        assert full_performance(100.0, 4.0, 10.0, 4.0) == 100.0
        assert full_performance(100.0, 7.0, 10.0, 4.0) == 0.0
        assert full_performance(100.0, 10.0, 10.0, 4.0) == -100.0
        assert full_performance(100.0, 50.0, 10.0, 4.0) == -100.0
