"""The weights of goods settle, so that orders don't take turns while nothing changes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from merkatd.market.goods_weights import WINDOW_S, first_weights, next_weights
from merkatd.market.limit_orders import Bids, LimitOrders, OrderBook
from tests.lengths import EXAMPLES
from tests.market.test_limit_orders import NUMBERS, book_of

PERIODS = 200
TURNS_S = [1.0, 1.0, 3.0, 55.0]
"""The lengths of periods, in turns: some begin early."""


def drawn(rng: np.random.Generator) -> OrderBook:
    """Draw a contended book of up to three goods, with the weights of its reserve prices."""
    goods, orders, bids = rng.integers(1, 4), rng.integers(2, 9), rng.integers(0, 6)
    capacity = rng.uniform(50.0, 150.0, goods)
    bundle = rng.uniform(5.0, 60.0, (orders, goods)) * (rng.random((orders, goods)) < 0.8)
    bundle[bundle.sum(axis=1) == 0] = 10.0
    limit = rng.lognormal(0.0, 0.7, orders) * bundle.sum(axis=1)
    cap = rng.uniform(5.0, 60.0, (bids, goods))
    floor = cap * rng.uniform(0.0, 0.3, (bids, goods)) * (rng.random((bids, goods)) < 0.5)
    bid = rng.lognormal(2.0, 0.8, (bids, goods)) * (rng.random((bids, goods)) < 0.9)
    reserve = rng.choice([0.001, 0.01, 0.3], goods)
    return OrderBook(
        Bids(bid, floor, cap),
        LimitOrders(limit, bundle),
        capacity,
        first_weights(np.full(goods, np.nan), capacity, reserve),
        reserve,
    )


def stops(book: OrderBook, periods: int) -> list[int]:
    """Return the periods in which a running order is stopped, though nobody changes anything."""
    ran, age_s, weights = np.zeros(len(book.orders.limit), dtype=bool), np.zeros(1), book.weights
    found = []
    for period in range(periods):
        now = replace(book, weights=weights, orders=book.orders._replace(runs=ran))
        cleared = now.clear()
        if (ran & ~cleared.runs).any():
            found.append(period)
        ran = cleared.runs
        passed_s = TURNS_S[period % len(TURNS_S)] * 4.0
        rows = weights[np.newaxis], cleared.offers[np.newaxis]
        (weights,), age_s = next_weights(*rows, age_s, passed_s)
    return found


@settings(max_examples=min(EXAMPLES, 20), deadline=None)
@given(NUMBERS)
def test_orders_do_not_take_turns_while_nothing_changes(rng: np.random.Generator) -> None:
    """Some are stopped while the weights settle."""
    assert len(stops(drawn(rng), PERIODS)) <= 8


@pytest.mark.parametrize("seed", [129, 161, 304, 690, 953, 1236])
def test_books_in_which_orders_took_turns_settle(seed: int) -> None:
    """With the last prices as weights, two orders displaced each other in turns for ever."""
    assert len(stops(drawn(np.random.default_rng(seed)), PERIODS)) <= 2


def test_weights_are_an_average_by_time_over_the_last_hour() -> None:
    """Sixty periods of a second count as one of a minute; older offers fade."""
    weights, offers, none = np.array([[1.0, 3.0]]), np.array([[2.0, 1.0]]), np.zeros(1)
    first, age_s = next_weights(weights, offers, none, 60.0)
    assert (first.tolist(), age_s.tolist()) == ([[2.0, 1.0]], [60.0])
    short, short_s = first, age_s
    for _ in range(60):
        short, short_s = next_weights(short, weights, short_s, 1.0)
    second, age_s = next_weights(first, weights, age_s, 60.0)
    assert second == pytest.approx(np.array([[1.5, 2.0]]))
    assert short == pytest.approx(second)
    assert short_s == pytest.approx(age_s)
    old, age_s = next_weights(second, offers, np.array([WINDOW_S]), 360.0)
    assert old == pytest.approx(second + 0.1 * (offers - second))
    assert age_s.tolist() == [WINDOW_S]
    assert next_weights(weights, offers, none, 0.0)[0].tolist() == weights.tolist()


def test_what_is_offered_at_the_margin_does_not_depend_on_which_order_runs() -> None:
    """Both need the first good; together they ask for more than there is at the lower height."""
    none = np.zeros((0, 2))
    orders = LimitOrders(np.array([120.0, 90.0]), np.array([[60.0, 30.0], [60.0, 0.0]]))
    book = OrderBook(Bids(none, none, none), orders, np.full(2, 100.0), np.ones(2), np.zeros(2))
    assert book.clear().offers == pytest.approx([4.0 / 3.0, 4.0 / 3.0 * 1e-3])
    turned = replace(book, weights=np.array([1.0, 2.0]))
    assert turned.clear().runs.tolist() == [False, True]
    assert turned.clear().offers == pytest.approx([1.0, 1e-3])
    squeezed = replace(book, take_places=[True, False].__getitem__)
    assert squeezed.clear().offers.tolist() == book.clear().offers.tolist()
    missing = replace(book, has_places=lambda _: False, take_places=[True, False].__getitem__)
    assert missing.clear().offers == pytest.approx([1e-2, 1e-2])


def test_bids_alone_offer_what_they_pay_for_all_there_is() -> None:
    """The order below their price offers less."""
    assert book_of([(100, 0, 200)], [(25, 50)], 100).clear().offers == pytest.approx([1.0])
