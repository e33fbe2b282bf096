"""Algorithm 4: growth with care, release without delay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.policies.horizontal import Fleet, Prices, scale
from merkatd.policies.vertical import Performance

PRICES = Prices(others=(1.0, 0.1), capacity=(7000.0, 235520.0))
SIZE = (100.0, 900.0)
SLOW = Performance(value=10.0, reference=4.0, low=2.0, high=6.0)
FINE = Performance(value=4.0, reference=4.0, low=2.0, high=6.0)
FAST = Performance(value=1.0, reference=4.0, low=2.0, high=6.0)


def fleet(vms: int, *, growth: int = 1, waiting: int = 0, least: int = 0) -> Fleet:
    """VMs of one core."""
    return Fleet(vms=vms, least=least, most=200, size=SIZE, growth=growth, waiting=waiting)


def test_slow_asks_for_one_more() -> None:
    """And bids what Algorithm 3 says for all of them."""
    scaled = scale(fleet(46), SLOW, 20000.0, PRICES)
    assert (scaled.vms, scaled.request, scaled.release) == (47, 1, 0)
    assert scaled.bid == pytest.approx((14304.3478 / 47, 5156.0377 / 47))


def test_fast_releases_one() -> None:
    """Down to the least."""
    assert scale(fleet(10), FAST, 20000.0, PRICES).release == 1
    assert scale(fleet(10, least=10), FAST, 20000.0, PRICES).release == 0


def test_fine_changes_nothing() -> None:
    """As long as it can be paid."""
    scaled = scale(fleet(10), FINE, 20000.0, PRICES)
    assert (scaled.vms, scaled.request, scaled.release) == (10, 0, 0)


def test_what_can_not_be_paid_is_released_at_once_and_nothing_asked_for_right_after() -> None:
    """One period later it may ask again."""
    scaled = scale(fleet(60), SLOW, 20000.0, PRICES)
    assert (scaled.vms, scaled.release, scaled.forced) == (47, 13, 13)
    later = scale(fleet(47, waiting=scaled.waiting), SLOW, 40000.0, PRICES)
    assert (later.request, later.waiting) == (0, 0)
    assert scale(fleet(47), SLOW, 40000.0, PRICES).request == 1


def test_never_many_at_once() -> None:
    """However much work there is."""
    assert scale(fleet(5, growth=4), SLOW, 20000.0, PRICES, wanted=40).request == 4
    assert scale(fleet(5, growth=4), SLOW, 20000.0, PRICES, wanted=7).request == 2


def test_no_more_than_there_is_work_for_is_kept() -> None:
    """Where the controller knows what there is work for."""
    assert scale(fleet(9), FAST, 20000.0, PRICES, wanted=2).release == 7


@given(
    st.integers(0, 100),
    st.sampled_from([SLOW, FINE, FAST]),
    st.floats(0, 1e5),
    st.integers(0, 3),
    st.integers(1, 8),
    st.integers(0, 5),
)
def test_bids_stay_within_the_budget(
    vms: int, how: Performance, bid_max: float, waiting: int, growth: int, least: int
) -> None:
    """Also of those that are still to go; and the numbers add up."""
    start = fleet(vms, growth=growth, waiting=waiting, least=least)
    scaled = scale(start, how, bid_max, PRICES)
    assert scaled.vms == vms + scaled.request - scaled.release
    assert scaled.request <= max(growth, least - vms)
    assert sum(scaled.bid) * max(scaled.vms, vms) <= bid_max * (1 + 1e-9)
    assert scaled.forced <= scaled.release
