"""Algorithm 3."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.policies.horizontal import Prices, bids_for, others_price, upper_bound

PRICES = Prices(others=(1.0, 0.1), capacity=(7000.0, 235520.0))
MOST = (100.0, 900.0)


def test_the_settled_example() -> None:
    """Its numbers are worked out by hand."""
    bound = upper_bound(200, 20000.0, MOST, PRICES)
    assert bound.vms == 47
    assert bound.bid == pytest.approx((14304.3478, 5156.0377), abs=5e-5)


def test_a_resource_that_is_not_wanted_costs_nothing() -> None:
    """Also where the market has none of it; one unit of another costs something."""
    prices = Prices(others=(2.0, 5.0), capacity=(100.0, 0.0))
    assert bids_for(1, (1.0, 0.0), prices) == pytest.approx((2.0 / 0.99, 0.0))
    assert upper_bound(3, 100.0, (1.0, 0.0), prices).vms == 3


def test_not_even_one() -> None:
    """Neither for so little money nor on so little capacity."""
    assert upper_bound(200, 1.0, MOST, PRICES).vms == 0
    assert upper_bound(10, 1e9, (8000.0, 0.0), PRICES).vms == 0


@given(st.integers(1, 300), st.floats(0.0, 1e6), st.floats(0.0, 10.0), st.floats(0.0, 10.0))
def test_the_greatest_number_that_can_be_paid(
    vms_max: int, bid_max: float, cpu: float, memory: float
) -> None:
    """One more would cost too much."""
    prices = Prices(others=(cpu, memory), capacity=PRICES.capacity)
    bound = upper_bound(vms_max, bid_max, MOST, prices)
    assert 0 <= bound.vms <= vms_max
    assert bound.vms == 0 or sum(bound.bid) < bid_max
    if bound.vms < vms_max:
        assert sum(bids_for(bound.vms + 1, MOST, prices)) >= bid_max


@given(st.floats(0.01, 1e3), st.integers(1, 60))
def test_the_bids_buy_the_sizes(price: float, vms: int) -> None:
    """By Eq. 1, beside others who bid `price` for each unit of the capacity."""
    prices = Prices(others=(price, price), capacity=PRICES.capacity)
    for bid, size, capacity in zip(bids_for(vms, MOST, prices), MOST, prices.capacity, strict=True):
        assert capacity * bid / (bid + price * capacity) == pytest.approx(size * vms)


def test_own_bids_are_no_part_of_the_price() -> None:
    """The rest is, and never less than the reserve price."""
    assert others_price(price=2.0, own=700.0, capacity=7000.0) == pytest.approx(1.9)
    assert others_price(price=0.1, own=700.0, capacity=7000.0, reserve=0.05) == 0.05


def test_bidding_what_was_asked_for_asks_for_the_same_again() -> None:
    """With one's own bids left out the price stands still, however often it is done."""
    others = 0.5
    own: tuple[float, ...] = (0.0, 0.0)
    for _ in range(20):
        price = tuple(
            others + mine / capacity for mine, capacity in zip(own, PRICES.capacity, strict=True)
        )
        seen = tuple(
            others_price(price_now, mine, capacity)
            for price_now, mine, capacity in zip(price, own, PRICES.capacity, strict=True)
        )
        own = bids_for(30, MOST, Prices(others=seen, capacity=PRICES.capacity))
    once = bids_for(30, MOST, Prices(others=(others, others), capacity=PRICES.capacity))
    assert own == pytest.approx(once)
