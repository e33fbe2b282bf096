"""Price, charge and errors: the design's example numbers, and properties for all other numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Floats
from merkatd.market.error import errors, shortfalls, weighted_shortfall
from merkatd.market.price import charges, price, price_of_whole_bids
from merkatd.market.share import share

BIDS = np.array([[12.0], [12.0], [12.0], [30.0], [30.0]])


def level_of(
    bids: list[float], caps: list[float], capacity: float, floors: list[float] | None = None
) -> Floats:
    """Return the amount that one credit buys on one host."""
    rows = len(bids)
    divided = share(
        np.array(bids, dtype=float),
        np.array(floors or [0.0] * rows),
        np.array(caps),
        np.zeros(rows, dtype=np.int64),
        np.array([capacity]),
    )
    return divided.level


def test_the_papers_price_is_bids_over_capacity() -> None:
    """In Figure 3, 96 credits bid for 300 units, with whole bids and with usable bids."""
    price_of_bids = price_of_whole_bids(BIDS, np.array([300.0]), np.array([0.0]))
    usable = price(level_of([12, 12, 12, 30, 30], [100.0] * 5, 300.0), np.array([0.0]))
    assert price_of_bids == pytest.approx([0.32])
    assert usable == pytest.approx([0.32])


def test_a_bid_counts_only_as_far_as_its_vm_can_use_it() -> None:
    """A bid of 9,000 credits for one unit leaves 299 units for the other 96 credits."""
    got = price(level_of([12, 12, 12, 30, 30, 9000], [100.0] * 5 + [1.0], 300.0), np.zeros(1))
    assert got == pytest.approx([96 / 299])


def test_the_papers_rule_charges_more_than_the_bid() -> None:
    """In Figure 3 a bid of 30 gets 100 units and is charged 32; with Merkat the tenant pays 30."""
    given = np.array([[100 / 3]] * 3 + [[100.0]] * 2)
    prices = np.full((5, 1), 0.32)
    got = charges(BIDS, given, prices, 1.0, above_bids=True)
    assert got[3, 0] == pytest.approx(32.0)
    assert charges(BIDS, given, prices, 1.0)[3, 0] == 30.0


def test_a_floor_never_costs_a_periods_price() -> None:
    """A floor costs the reserve price or the bid, because anyone can raise a price briefly."""
    given, price = np.array([[50.0], [50.0]]), np.full((2, 1), 400.0)
    bids, floors = np.array([[0.0], [30.0]]), np.array([[50.0], [20.0]])
    got = charges(bids, given, price, 1.0, floors=floors, reserve=0.2)
    assert got[:, 0].tolist() == [10.0, 30.0]


def test_the_clearing_rule_never_charges_more_than_the_bid() -> None:
    """At 1 / level a VM between floor and cap pays its bid, and a VM at its cap pays less."""
    level = share(
        np.array([1.0, 1, 2]),
        np.zeros(3),
        np.array([100.0, 10, 100]),
        np.zeros(3, dtype=np.int64),
        np.array([100.0]),
    )
    bids = np.array([[1.0], [1.0], [2.0]])
    cost = price(level.level, np.zeros(1))
    got = charges(bids, level.allocation[:, np.newaxis], np.tile(cost, (3, 1)), 1)
    assert got[:, 0] == pytest.approx([1.0, 1 / 3, 2.0])


def test_the_reserve_price_is_the_lowest_price() -> None:
    """Without bids, or with every VM at its cap, the price is the reserve price."""
    assert price(np.array([np.inf]), np.array([0.5])) == [0.5]
    assert price_of_whole_bids(np.zeros((2, 1)), np.array([100.0]), np.array([0.5])) == [0.5]


def test_a_floor_costs_at_least_the_reserve_price() -> None:
    """A VM without a bid pays for its floor; a VM with a higher bid pays its bid."""
    bids, floors = np.array([[0.0], [30.0], [30.0]]), np.array([[40.0], [40.0], [40.0]])
    given = np.array([[40.0], [40.0], [20.0]])
    got = charges(
        bids,
        given,
        np.full((3, 1), np.inf),
        1.0,
        floors=floors,
        reserve=np.array([0.5]),
    )
    assert got[:, 0] == pytest.approx([20.0, 30.0, 30.0])


def test_when_floors_use_up_everything_each_vm_pays_its_bid() -> None:
    """No price clears such a market: the price is infinite, and charges stop at the bids."""
    cost = price(np.array([0.0]), np.zeros(1))
    got = charges(BIDS, np.ones((5, 1)), np.tile(cost, (5, 1)), 1.0)
    assert got == pytest.approx(BIDS)


def test_a_market_without_capacity_has_the_reserve_price() -> None:
    """Without capacity to sell, the price is the reserve price."""
    got = price_of_whole_bids(BIDS, np.array([0.0]), np.array([0.25]))
    assert got == [0.25]


@given(st.floats(0.0, 100.0))
def test_a_charge_scales_with_time_up_to_two_periods(elapsed: float) -> None:
    """A charge covers at most two periods, however late the next observation is."""
    got = charges(BIDS, np.ones((5, 1)), np.ones((5, 1)), elapsed)
    assert got == pytest.approx(np.full((5, 1), min(elapsed, 2.0)))


def test_no_allocation_costs_nothing_at_any_price() -> None:
    """A VM without an allocation is charged nothing, also at an infinite price."""
    got = charges(BIDS, np.zeros((5, 1)), np.full((5, 1), np.inf), 1.0)
    assert not got.any()


def test_the_errors_of_figure_3_match_the_paper() -> None:
    """Errors by Eq. 2 equal those of the paper's example."""
    first = np.array([[37.5]] * 3 + [[93.75]] * 2)
    given = np.array([[100 / 3]] * 3 + [[100.0]] * 2)
    assert errors(first, given)[:, 0] == pytest.approx([1 / 9] * 3 + [1 / 15] * 2)
    assert shortfalls(first, given) == pytest.approx([1 / 9] * 3 + [0, 0])
    assert weighted_shortfall(BIDS, first, given) == pytest.approx(4.0)


def test_no_first_allocation_gives_no_error() -> None:
    """A VM without a first allocation has no error, whatever its host allocates."""
    assert errors(np.zeros((1, 2)), np.ones((1, 2))).tolist() == [[0.0, 0.0]]
    assert shortfalls(np.zeros((0, 2)), np.zeros((0, 2))).tolist() == []
