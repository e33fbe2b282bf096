"""Limit orders as they are listed, in the order book, and beside bids."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.api.xmlrpc.errors import Code
from merkatd.cluster.columns import NO_MARKET
from merkatd.cluster.orders import OrderOutcome
from merkatd.database.scheduler import limit_order_store
from merkatd.placement.contract import Pricing
from merkatd.service.base.callers import LOCAL
from tests.service.interfaces import Interfaces
from tests.service.stated_limit_orders import ANN, BOB, SET, other, view_of, without_orders, write


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield the interfaces of a cloud without orders."""
    yield from without_orders()


def test_a_running_order_shows_the_limit_in_force(asked: Interfaces) -> None:
    """After its start it is higher; the outcome of the period is shown."""
    id_, _ = asked.call(ANN, SET, [0, 1], 3.0, 100.0, 4.0)
    now_s = asked.frontend.clock.seconds()
    outcome = OrderOutcome(id_, runs=True, cost=2.5, why="")
    write(asked, lambda c: limit_order_store.record_outcomes(c, [outcome], now_s))
    (row,), _ = asked.call(ANN, "merkat.order.list")
    shown = {name: row[name] for name in ("limit", "limit_now", "runs", "since_s", "cost")}
    assert shown == {"limit": 3.0, "limit_now": 12.0, "runs": True, "since_s": now_s, "cost": 2.5}
    asked.frontend.clock.advance(100)
    (row,), _ = asked.call(ANN, "merkat.order.list")
    assert row["limit_now"] == 3.0
    (booked,), _ = asked.call(BOB, "merkat.order.book")
    assert (booked["limit"], booked["runs"]) == (3.0, True)


def test_the_book_has_the_orders_of_all_by_height(asked: Interfaces) -> None:
    """The bundle is the sum of full sizes; the height compares its cost with the limit."""
    asked.call(ANN, SET, [0, 1], 10.0)
    asked.call(BOB, SET, [2], 6.0)
    asked.call(BOB, SET, [3], 4.0)
    rows, code = asked.call(BOB, "merkat.order.book", "default")
    assert code == 0
    assert [row["limit"] for row in rows] == [6.0, 10.0, 4.0]
    assert [row["cpu"] for row in rows] == [400.0, 800.0, 400.0]
    prices = {row["resource"]: row["price"] for row in asked.control("price")}
    for row in rows:
        assert set(row) == {"height", "limit", "runs", "cpu", "memory"}
        cost = row["cpu"] * prices["cpu"] + row["memory"] * prices["memory"]
        assert row["height"] == pytest.approx(row["limit"] / cost)
    assert rows == asked.call(ANN, "merkat.order.book")[0] == asked.control("limit_order_book")
    answer, code = asked.call(ANN, "merkat.order.book", "other")
    assert (code, "market: must be one of default (got 'other')" in answer) == (Code.RPC_API, True)


@pytest.mark.parametrize("reserve", [{}, {"cpu": 0.01, "memory": 0.001}])
def test_without_prices_the_reserve_prices_count(
    asked: Interfaces, reserve: dict[str, float]
) -> None:
    """An order without any price has no height and stands at the end, as an unlimited one does."""
    asked.call(ANN, SET, [0], 5.0)
    asked.call(BOB, SET, [2], 4.0)
    world = asked.frontend.scheduler.world
    rules = replace(world.markets[0], pricing=Pricing(reserve=reserve))
    asked.frontend.scheduler.world = replace(world, markets=(rules,))
    view = view_of(asked)
    prices = np.full_like(view.decision.prices, np.inf)
    cap = view.snapshot.vms.cap.copy()
    cap[0] = (0.0, np.inf)
    vms = replace(view.snapshot.vms, cap=cap)
    view = replace(
        view,
        decision=replace(view.decision, prices=prices),
        snapshot=replace(view.snapshot, vms=vms),
    )
    book = asked.services.limit_orders.book
    rows = asked.frontend.result(ensureDeferred(book(LOCAL, view, None)))
    shown = [(row.limit, row.height, row.bundle["memory"]) for row in rows]
    if reserve:
        assert shown == [(4.0, pytest.approx(4.0 / (4.0 + 2.048)), 2048.0), (5.0, None, None)]
    else:
        assert shown == [(5.0, None, None), (4.0, None, 2048.0)]


def test_another_market_has_its_own_book(asked: Interfaces) -> None:
    """An order whose VMs no period has seen yet, or not any more, is in no book."""
    asked.call(ANN, SET, [1], 5.0)
    view = other(view_of(asked), market=NO_MARKET)
    book = asked.services.limit_orders.book
    assert asked.frontend.result(ensureDeferred(book(LOCAL, view, None))) == []
    write(
        asked,
        lambda c: limit_order_store.add(
            c, owner=2, vms=[777], limit=1.0, least_run_s=0.0, factor=1.0, stated_s=0.0
        ),
    )
    assert len(asked.control("limit_order_book")) == 1
    assert [row["market"] for row in asked.control("limit_orders")] == ["default", None]


def test_a_bid_and_an_explanation_name_the_order(asked: Interfaces) -> None:
    """The VM's own bid can be changed meanwhile; it counts again later."""
    assert asked.call(ANN, "merkat.bid.info", 0)[0].get("limit_order") is None
    id_, _ = asked.call(ANN, SET, [0], 3.5)
    for method, arguments in (
        ("merkat.bid.info", ()),
        ("merkat.bid.set", ({"cpu": 9.0},)),
        ("merkat.vm.explain", ()),
    ):
        assert asked.call(ANN, method, 0, *arguments)[0]["limit_order"] == id_
        assert "limit_order" not in asked.call(ANN, method, 1, *arguments)[0]
    assert asked.control("bid", vm="0")["limit_order"] == id_
    assert asked.control("explain", vm="0")["limit_order"] == id_
