"""The weights of goods settle, so that orders don't take turns while nothing changes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from merkatd.market.goods_weights import first_weights, next_weights
from merkatd.market.limit_orders import Bids, LimitOrders, OrderBook
from tests.lengths import EXAMPLES
from tests.market.test_limit_orders import NUMBERS

PERIODS = 400
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


@settings(max_examples=min(EXAMPLES, 40), deadline=None)
@given(NUMBERS)
def test_orders_do_not_take_turns_while_nothing_changes(rng: np.random.Generator) -> None:
    """In the last half of many periods no running order is stopped."""
    assert [at for at in stops(drawn(rng), PERIODS) if at >= PERIODS // 2] == []


@pytest.mark.parametrize("seed", [304, 369, 690, 757, 857, 862, 953, 991, 1085, 1230, 1236, 1361])
def test_books_in_which_orders_took_turns_settle(seed: int) -> None:
    """With the last prices as weights, two orders displaced each other in turns for ever."""
    late = [at for at in stops(drawn(np.random.default_rng(seed)), PERIODS) if at >= 360]
    assert late == []
