"""Starting again: ever later, and not for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.base.backoff import Patience, RestartHistory

PATIENCE = Patience(least_s=1.0, most_s=30.0, tries=8)


def test_waits_double_up_to_the_longest() -> None:
    """Without the spread: 1, 2, 4 and so on."""
    restarts, waits = RestartHistory(), []
    for _ in range(8):
        restarts = restarts.after(0.1, PATIENCE)
        waits.append(restarts.wait_s(PATIENCE, 1.0))
    assert waits == [1, 2, 4, 8, 16, 30, 30, 30]
    assert restarts.after(0.1, PATIENCE).wait_s(PATIENCE, 1.0) is None


def test_who_lived_long_begins_anew() -> None:
    """One that fails once a day is never given up."""
    restarts = RestartHistory()
    for _ in range(100):
        restarts = restarts.after(31.0, PATIENCE)
    assert restarts.wait_s(PATIENCE, 1.0) == 1.0
    assert restarts.after(30.0, PATIENCE).wait_s(PATIENCE, 1.0) == 2.0


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_waits_are_spread_within_their_bounds(failures: int, draw: float) -> None:
    """Processes that end together don't come together."""
    wait_s = RestartHistory(failures).wait_s(Patience(least_s=1.0, most_s=30.0, tries=10**7), draw)
    assert wait_s == pytest.approx(min(2.0 ** min(failures - 1, 10), 30.0) * (0.5 + draw / 2))
