"""The limit with which one more order would start now, beside the bids and orders of a market."""

from collections.abc import Collection, Mapping, Sequence
from math import isfinite

import numpy as np

from merkatd.cluster import Floats, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of, rows_of
from merkatd.cluster.orders import LimitOrder
from merkatd.market.limit_orders import Bids, LimitOrders, OrderBook
from merkatd.market.market_view import market_view
from merkatd.protocol.platform_messages import Amounts
from merkatd.scheduler.base.settings import MarketRules

_LEAST_PRICE = 1e-9
"""The least weight of a good without a price, which is no reason for an order to wait."""


def limit_to_start(
    snapshot: Snapshot,
    row: int,
    market: MarketRules,
    prices: Amounts,
    bundle: Amounts,
    others: Sequence[LimitOrder],
    without: Collection[int] = (),
) -> float | None:
    """Return the least limit with which an order for a bundle would run, as capacity goes.

    It is None if no limit would be enough. The arguments are those of `present_book`. Whether hosts
    have room for each VM is not considered.
    """
    book = present_book(snapshot, row, market, prices, others, without)
    wanted = np.array([[bundle.get(name, 0.0) for name in snapshot.resources]])
    least = float(book.limits_that_run(wanted)[0])
    return least if isfinite(least) else None


def present_book(
    snapshot: Snapshot,
    row: int,
    market: MarketRules,
    prices: Amounts,
    others: Sequence[LimitOrder],
    without: Collection[int] = (),
) -> OrderBook:
    """Return a market's bids and limit orders as the next period will find them.

    `row` is the market's row in the snapshot, whose VMs in orders have their terms. `prices` are
    the announced prices, `others` the orders that count. The VMs `without` bid nothing.
    """
    names = snapshot.resources
    view, rule = market_view(snapshot, row), market.pricing.rule
    bidding = (view.place != NO_HOST) & (snapshot.vms.order[view.vms] == NO_ROW)
    if without:
        bidding &= ~is_one_of(snapshot.vms.id[view.vms], without)
    there = np.flatnonzero(bidding)
    bid, floor, cap = (of[there] for of in view.counted(rule, view.place))
    limits, bundles = _orders_of(snapshot, row, others)
    reserve = market.pricing.reserve_prices(names)
    return OrderBook(
        Bids(bid, floor, cap),
        LimitOrders(limits, bundles),
        view.total,
        _weights(snapshot, row, np.maximum(_known(prices, names), reserve)),
        reserve,
    )


def _orders_of(snapshot: Snapshot, row: int, orders: Sequence[LimitOrder]) -> tuple[Floats, Floats]:
    """Return the limits and the bundles of a market's orders."""
    limits, bundles = [], []
    for order in orders:
        rows = rows_of(snapshot.vms.id, np.array(order.vms, dtype=np.int64))
        rows = rows[rows != NO_ROW]
        rows = rows[snapshot.vms.market[rows] == row]
        if len(rows):
            limits.append(order.limit_at(snapshot.now_s))
            bundles.append(snapshot.vms.cap[rows].sum(axis=0))
    return np.array(limits), np.array(bundles).reshape(-1, len(snapshot.resources))


def _weights(snapshot: Snapshot, row: int, prices: Floats) -> Floats:
    """Return [resources]: the weights of a market's goods, or these prices before the first."""
    stored = snapshot.markets.weights
    is_known = stored.shape[1] and np.isfinite(stored[row]).all()
    return np.maximum(stored[row] if is_known else prices, _LEAST_PRICE)


def _known(prices: Mapping[str, float], names: Sequence[str]) -> Floats:
    """Return [resources]: the announced prices; 0 for none, or an infinite one."""
    known = np.array([prices.get(name, 0.0) for name in names])
    return np.where(np.isfinite(known), known, 0.0)
