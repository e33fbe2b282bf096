"""Limit orders beside proportional bids: the example, and the promises of the market."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Bools, Floats
from merkatd.market.limit_orders import Bids, LimitOrders, OrderBook
from merkatd.market.share import share
from tests.lengths import EXAMPLES

SLACK = 1e-9


def book_of(
    bids: list[tuple[float, float, float]],
    orders: list[tuple[float, float]],
    capacity: float,
    reserve: float = 0.0,
) -> OrderBook:
    """Return a book of one good: bids with floors and caps, and limits with their units."""
    rows = np.array(bids, dtype=float).reshape(-1, 3)
    limits = np.array(orders, dtype=float).reshape(-1, 2)
    return OrderBook(
        Bids(rows[:, :1], rows[:, 1:2], rows[:, 2:]),
        LimitOrders(limits[:, 0], limits[:, 1:]),
        np.array([capacity]),
        np.ones(1),
        np.array([reserve]),
    )


NUMBERS = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def drawn(rng: np.random.Generator, orders: int = 6, bids: int = 4) -> OrderBook:
    """Draw a contended book of one to four goods."""
    goods = int(rng.integers(1, 5))
    capacity = rng.uniform(50.0, 150.0, goods)
    bundle = rng.uniform(5.0, 60.0, (orders, goods)) * (rng.random((orders, goods)) < 0.8)
    bundle[bundle.sum(axis=1) == 0] = 10.0
    limit = rng.lognormal(0.0, 0.7, orders) * bundle.sum(axis=1)
    cap = rng.uniform(5.0, 60.0, (bids, goods))
    floor = cap * rng.uniform(0.0, 0.3, (bids, goods)) * (rng.random((bids, goods)) < 0.5)
    bid = rng.lognormal(2.0, 0.8, (bids, goods)) * (rng.random((bids, goods)) < 0.9)
    weights = rng.lognormal(0.0, 0.5, goods)
    reserve = rng.choice([0.0, 0.01, 0.3], goods)
    return OrderBook(
        Bids(bid, floor, cap),
        LimitOrders(limit, bundle),
        capacity,
        weights,
        reserve,
    )


def with_limit(book: OrderBook, order: int, limit: float) -> OrderBook:
    """Return the book with another limit of one order."""
    limits = book.orders.limit.copy()
    limits[order] = limit
    return replace(book, orders=book.orders._replace(limit=limits))


def demand_of_bids(book: OrderBook, height: float) -> Floats:
    """Return what bids ask for at prices of a height, as Eq. 1 has it."""
    bid, floor, cap = book.bids
    price = np.maximum(book.weights * height, book.reserve)
    asked: Floats = np.where(bid > 0, np.clip(bid / price, floor, cap), floor).sum(axis=0)
    return asked


def stable_sets(book: OrderBook) -> list[Bools]:
    """Return every set of orders in which no order runs without room, or lacks room it has."""
    orders = book.orders
    pays = orders.limit >= orders.bundle @ book.reserve
    rank = np.lexsort((np.arange(len(orders.limit)), -book.height))
    found = []
    for chosen in itertools.product([False, True], repeat=len(rank)):
        runs = np.array(chosen)
        above = np.zeros(len(book.capacity))
        for order in rank.tolist():
            needed = above + orders.bundle[order] + demand_of_bids(book, book.height[order])
            fits = pays[order] and (needed <= book.capacity * (1 + 1e-11)).all()
            if fits != runs[order]:
                break
            above = above + orders.bundle[order] * runs[order]
        else:
            found.append(runs)
    return found


def test_the_example_of_the_note() -> None:
    """A displaces B and pays what B would pay; C uses the room that is too small for B."""
    book = book_of([(10, 0, 100)], [(120, 60), (90, 60), (30, 30)], 100)
    cleared = book.clear()
    assert cleared.runs.tolist() == [True, False, True]
    assert cleared.cost == pytest.approx([90, 0, 30])
    assert cleared.price == pytest.approx([1.5])


def test_orders_that_nobody_competes_with_pay_the_reserve_price() -> None:
    """The price is the reserve price, too; an order that can't pay it waits."""
    cleared = book_of([(10, 0, 20)], [(120, 60), (5, 10)], 100, reserve=0.75).clear()
    assert cleared.runs.tolist() == [True, False]
    assert cleared.cost == pytest.approx([45, 0])
    assert cleared.price == pytest.approx([0.75])


def test_an_order_without_hosts_counts_as_absent() -> None:
    """It displaces nothing, raises no price, and costs those nothing that run instead."""
    book = book_of([], [(120, 60), (90, 60), (30, 60)], 100)
    asked: list[int] = []

    def take_places(order: int) -> bool:
        asked.append(order)
        return order != 0

    cleared = replace(book, take_places=take_places).clear()
    assert asked == [0, 1]  # the third lacks room, hosts or not
    assert cleared.runs.tolist() == [False, True, False]
    assert cleared.placeless.tolist() == [True, False, False]
    assert cleared.cost == pytest.approx([0, 30, 0])
    assert cleared.price == pytest.approx([0.5])


def test_an_order_without_hosts_below_costs_nothing() -> None:
    """The room that it would have taken is there for the orders below it."""
    book = book_of([], [(120, 60), (209, 110), (45, 30), (30, 30)], 100)
    cleared = replace(book, take_places=lambda order: order != 2).clear()
    assert cleared.runs.tolist() == [True, False, False, True]
    assert cleared.cost == pytest.approx([0, 0, 0, 0])


def test_an_order_that_no_limit_could_start_raises_neither_prices_nor_costs() -> None:
    """It is larger than the market, or than what floors leave, or it has no hosts."""
    alone = book_of([(5, 30, 50)], [(9, 40)], 100, reserve=0.01).clear()
    for more, fits in (((1000, 110), True), ((1000, 80), True), ((1000, 65), False)):
        book = book_of([(5, 30, 50)], [(9, 40), more], 100, reserve=0.01)
        if not fits:  # it has room without the other order
            book = book_of([(5, 30, 50)], [(2000, 40), more], 100, reserve=0.01)
        cleared = replace(book, has_places=[fits, fits].__getitem__).clear()
        assert cleared.runs.tolist() == [True, False]
        assert cleared.placeless.tolist() == [False, not fits]
        assert cleared.cost == pytest.approx([*alone.cost, 0])
        assert cleared.price == pytest.approx(alone.price)


def test_the_price_is_that_of_the_highest_order_without_room() -> None:
    """Lower ones offer less for the same units."""
    cleared = book_of([], [(120, 60), (90, 60), (60, 60)], 100).clear()
    assert cleared.price == pytest.approx([1.5])


def test_an_order_raises_only_the_prices_of_the_goods_that_it_lacks() -> None:
    """It needs little of the second good, of which there is enough."""
    none = np.zeros((0, 2))
    limit = np.array([120.0, 90.0])
    book = OrderBook(
        Bids(none, none, none),
        LimitOrders(limit, np.array([[60.0, 1.0], [60.0, 1.0]])),
        np.array([100.0, 100.0]),
        np.array([1.0, 1.0]),
        np.array([0.0, 0.25]),
    )
    assert book.clear().price == pytest.approx([90 / 61, 0.25])


def test_a_capped_bid_is_not_a_cheaper_order() -> None:
    """A bid that keeps an order out pays what the order would pay for its units."""
    cleared = book_of([(100, 0, 60)], [(50, 50)], 100).clear()
    assert cleared.runs.tolist() == [False]
    assert cleared.price == pytest.approx([1.0])


def test_without_orders_prices_are_those_of_the_shares() -> None:
    """Bit for bit the same level as Eq. 1 gives the market as one host."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        book = drawn(rng, orders=0, bids=int(rng.integers(1, 9)))
        for good, price in enumerate(book.clear().price.tolist()):
            bid, floor, cap = (column[:, good].copy() for column in book.bids)
            pool = np.zeros(len(book.bids.bid), dtype=np.int64)
            level = share(bid, floor, cap, pool, book.capacity[good : good + 1]).level[0]
            with np.errstate(divide="ignore"):
                assert price == pytest.approx(max(1 / level, book.reserve[good]), rel=1e-14)


@settings(max_examples=EXAMPLES)
@given(NUMBERS)
def test_the_orders_that_run_are_the_only_stable_set(rng: np.random.Generator) -> None:
    """Brute force over all sets of six orders finds the same one."""
    book = drawn(rng)
    (only,) = stable_sets(book)
    assert book.clear().runs.tolist() == only.tolist()


@settings(max_examples=EXAMPLES)
@given(NUMBERS)
def test_an_order_pays_the_least_limit_with_which_it_runs(rng: np.random.Generator) -> None:
    """With a little more it runs, with a little less it waits, whatever it states at first."""
    book = drawn(rng)
    cleared = book.clear()
    assert (cleared.cost <= book.orders.limit).all()
    assert not cleared.cost[~cleared.runs].any()
    for order in np.flatnonzero(cleared.runs).tolist():
        least = cleared.cost[order]
        more = with_limit(book, order, least * 1.000001 + SLACK).clear()
        assert more.runs[order]
        assert more.cost[order] == pytest.approx(least)
        if least > SLACK:
            assert not with_limit(book, order, least * 0.999999 - SLACK).clear().runs[order]


@settings(max_examples=EXAMPLES)
@given(NUMBERS, st.floats(1.0, 10.0))
def test_a_higher_limit_never_stops_an_order_or_costs_more(
    rng: np.random.Generator, factor: float
) -> None:
    """What it pays is set by others alone."""
    book = drawn(rng)
    cleared = book.clear()
    for order in np.flatnonzero(cleared.runs).tolist():
        higher = with_limit(book, order, book.orders.limit[order] * factor).clear()
        assert higher.runs[order]
        assert cleared.cost[order] == pytest.approx(higher.cost[order])


@settings(max_examples=EXAMPLES)
@given(NUMBERS)
def test_the_quoted_limit_is_the_least_that_runs(rng: np.random.Generator) -> None:
    """A quote for one more order and its clearing agree."""
    book = drawn(rng, orders=5)
    more = drawn(rng, orders=1).orders.bundle[0]
    bundle = np.resize(more, len(book.capacity))
    if not bundle.any():
        return
    quoted = float(book.limits_that_run(bundle[np.newaxis])[0])
    for factor, expected in ((1.000001, True), (0.999999, False)):
        limit = min(quoted, 1e9) * factor
        orders = LimitOrders(
            np.append(book.orders.limit, limit),
            np.vstack([book.orders.bundle, bundle]),
        )
        both = replace(book, orders=orders)
        assert both.clear().runs[-1] == (expected and quoted < np.inf) or quoted == 0


@settings(max_examples=EXAMPLES)
@given(NUMBERS)
def test_a_waiting_order_runs_with_the_limit_that_it_lacks(rng: np.random.Generator) -> None:
    """With a little less it still waits."""
    book = drawn(rng)
    lacked = book.limits_that_run(book.orders.bundle)
    for order in np.flatnonzero(~book.clear().runs).tolist():
        assert lacked[order] >= book.orders.limit[order] * (1 - 1e-9)
        if np.isfinite(lacked[order]):
            assert with_limit(book, order, lacked[order] * 1.000001).clear().runs[order]


@settings(max_examples=EXAMPLES)
@given(NUMBERS, st.sampled_from([1e-3, 7.0, 1e6]))
def test_another_currency_changes_no_allocation(rng: np.random.Generator, unit: float) -> None:
    """With all credits in another unit the same orders run, at costs in this unit."""
    book = drawn(rng)
    bid, floor, cap = book.bids
    limit, bundle, _ = book.orders
    other = OrderBook(
        Bids(bid * unit, floor, cap),
        LimitOrders(limit * unit, bundle),
        book.capacity,
        book.weights,
        book.reserve * unit,
    )
    mine, theirs = book.clear(), other.clear()
    assert mine.runs.tolist() == theirs.runs.tolist()
    assert theirs.cost == pytest.approx(mine.cost * unit)
    assert theirs.price == pytest.approx(mine.price * unit)
