"""Rate limits: an average rate, a burst at once, and separate limits for each name."""

from hypothesis import given
from hypothesis import strategies as st

from merkatd.base.rate_limit import RateLimit


@given(gaps=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=200))
def test_the_burst_and_the_rate_are_never_exceeded(gaps: list[float]) -> None:
    """This holds in any interval; a caller that waits as told is accepted."""
    rates, now_s, let = RateLimit(per_s=5.0, burst_s=2.0), 0.0, 0
    for gap in gaps:
        now_s += gap
        wait_s = rates.take("ann", now_s)
        if wait_s == 0:
            let += 1
        else:
            assert wait_s <= 1 / 5 + 1e-9
            assert rates.take("ann", now_s + wait_s + 1e-9) == 0
            now_s += wait_s + 1e-9
            let += 1
        assert let <= 10 + 5 * now_s + 1e-6
    assert rates.take("bob", now_s) == 0


def test_a_fined_caller_waits_longer() -> None:
    """The wait is at most the time to fill a bucket twice."""
    rates = RateLimit(per_s=5.0, burst_s=2.0)
    for _ in range(100):
        rates.fine("guesser", 0.0, 10.0)
    assert 2.0 < rates.take("guesser", 0.0) <= 2.2 + 1e-9


def test_the_number_of_names_in_memory_is_bounded() -> None:
    """Unused names are forgotten."""
    rates = RateLimit(per_s=5.0, burst_s=2.0)
    for number in range(25_000):
        rates.take(number, 0.0)
    assert len(rates._buckets) <= 10_000
