"""Restarting with growing waits and a limit of retries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.base.backoff import Backoff

BACKOFF = Backoff(first_s=1.0, longest_s=30.0, retries=8)


def test_waits_double_up_to_the_longest() -> None:
    """Without the random spread, waits are 1, 2, 4 seconds and so on, up to the longest wait."""
    failures, waits = 0, []
    for _ in range(8):
        failures = BACKOFF.failures_after(failures, 0.1)
        waits.append(BACKOFF.wait_s(failures, 1.0))
        assert not BACKOFF.is_over(failures)
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    assert BACKOFF.is_over(BACKOFF.failures_after(failures, 0.1))


def test_a_long_run_resets_the_failures() -> None:
    """A process that fails once a day is always restarted."""
    failures = 0
    for _ in range(100):
        failures = BACKOFF.failures_after(failures, 31.0)
    assert BACKOFF.wait_s(failures, 1.0) == 1.0
    assert BACKOFF.wait_s(BACKOFF.failures_after(failures, 30.0), 1.0) == 2.0


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_waits_are_spread_within_their_bounds(failures: int, draw: float) -> None:
    """The random spread keeps processes that end together from restarting together."""
    wait_s = BACKOFF.wait_s(failures, draw)
    assert wait_s == pytest.approx(min(2.0 ** min(failures - 1, 10), 30.0) * (0.5 + draw / 2))


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_without_a_limit_retries_never_end(failures: int, draw: float) -> None:
    """The spread may also lengthen a wait beyond the longest one."""
    backoff = Backoff(first_s=5.0, longest_s=300.0, spread=(0.75, 1.25))
    assert not backoff.is_over(failures)
    assert 3.75 <= backoff.wait_s(failures, draw) <= 375.0
