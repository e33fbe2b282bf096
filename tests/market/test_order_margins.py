"""Limit orders at the margins of the rules: no limit, exact fits, reserve prices, many orders."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from merkatd.market.limit_orders import Bids, LimitOrders, OrderBook
from tests.lengths import EXAMPLES
from tests.market.test_limit_orders import NUMBERS, book_of, drawn


def test_an_order_without_a_limit_waits_in_an_empty_market() -> None:
    """Nothing has a price there; another order runs for nothing."""
    cleared = book_of([], [(0, 10), (1, 10)], 100).clear()
    assert cleared.runs.tolist() == [False, True]
    assert cleared.cost.tolist() == [0, 0]


def test_orders_that_fit_exactly_run_despite_rounding() -> None:
    """0.1 + 0.2 is more than 0.3 in floating point."""
    cleared = book_of([], [(2, 0.1), (2, 0.2)], 0.3).clear()
    assert cleared.runs.tolist() == [True, True]


def test_bids_ask_for_no_more_than_at_the_reserve_price() -> None:
    """The order's height is below the reserve price of the first good, and it pays that price."""
    book = OrderBook(
        Bids(np.array([[20.0, 0.0]]), np.zeros((1, 2)), np.array([[60.0, 0.0]])),
        LimitOrders(np.array([50.0]), np.array([[10.0, 100.0]])),
        np.array([50.0, 200.0]),
        np.array([0.1, 1.0]),
        np.array([1.0, 0.0]),
    )
    cleared = book.clear()
    assert cleared.runs.tolist() == [True]
    assert cleared.cost == pytest.approx([10.0])


def by_search(book: OrderBook, order: int) -> float:
    """Return the least limit with which an order runs, by halving."""
    low, high = 0.0, float(book.orders.limit[order])
    for _ in range(36):
        middle = (low + high) / 2
        limits = book.orders.limit.copy()
        limits[order] = middle
        runs = replace(book, orders=book.orders._replace(limit=limits)).clear().runs[order]
        low, high = (low, middle) if runs else (middle, high)
    return high


@settings(max_examples=max(EXAMPLES // 10, 3), deadline=None)
@given(NUMBERS)
def test_costs_in_a_long_book_are_the_least_limits(rng: np.random.Generator) -> None:
    """More orders lack room than are compared at once; some have no hosts."""
    book = drawn(rng, orders=200, bids=3)
    hosts = rng.random(200) < 0.8
    hosts[:2] = True
    book = replace(
        book,
        capacity=book.capacity * 3,
        take_places=hosts.item,
        has_places=hosts.item,
    )
    cleared = book.clear()
    lacked = book.limits_that_run(book.orders.bundle)
    running = np.flatnonzero(cleared.runs)
    for order in rng.permutation(running)[:2].tolist():
        assert cleared.cost[order] == pytest.approx(by_search(book, order), rel=1e-6, abs=1e-9)
    waiting = np.flatnonzero(~cleared.runs & hosts & np.isfinite(lacked))
    for order in rng.permutation(waiting)[:2].tolist():
        limits = book.orders.limit.copy()
        for factor, runs in ((1.000001, True), (0.999999, False)):
            limits[order] = lacked[order] * factor
            changed = replace(book, orders=book.orders._replace(limit=limits)).clear()
            assert changed.runs[order] == runs
