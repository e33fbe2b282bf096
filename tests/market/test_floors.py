"""A claimed floor holds as far as its bid pays for it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from merkatd.market.floors import paid_floors

AMOUNTS = st.floats(0, 1e6)


def paid(floor: float, bid: float, price: float, reserve: float) -> float:
    """Of one VM and one good."""
    one = (np.array([[float(value)]]) for value in (floor, bid, price, reserve))
    return float(paid_floors(*one)[0, 0])


def test_a_claim_without_a_bid_is_worth_nothing_where_others_bid() -> None:
    """At 0.1 credits a unit 20 credits pay for 200 of 300 units, and none for none."""
    assert paid(300, 0, 0.1, 0.01) == 0
    assert paid(300, 20, 0.1, 0.01) == 200
    assert paid(100, 20, 0.1, 0.01) == 100
    assert paid(300, 20, np.inf, 0.01) == 0


def test_where_there_is_enough_it_holds() -> None:
    """At the reserve price, which it then costs."""
    assert paid(300, 0, 0.01, 0.01) == 300


@given(floor=AMOUNTS, bid=AMOUNTS, price=st.floats(1e-9, 1e6), reserve=st.floats(0, 1e6))
def test_it_is_never_more_than_is_claimed_or_paid_for(
    floor: float, bid: float, price: float, reserve: float
) -> None:
    """A higher bid never lowers it."""
    found = paid(floor, bid, price, reserve)
    assert 0 <= found <= floor
    assert price <= reserve or found * price <= bid * (1 + 1e-9) + 1e-300
    assert paid(floor, bid * 2, price, reserve) >= found
