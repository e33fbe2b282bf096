"""The order book of a market: its limit orders, its bids, and the hosts that both can have."""

from typing import NamedTuple

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of
from merkatd.cluster.orders import OrderTerms, with_order_terms
from merkatd.market.goods_weights import first_weights
from merkatd.market.limit_orders import Bids, LimitOrders, OrderBook
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement.contract import Pricing
from merkatd.placement.market.orders.order_places import OrderPlaces


class OpenedBook(NamedTuple):
    """An order book, with the places that its orders take as it is cleared."""

    places: OrderPlaces
    book: OrderBook
    bidders: Ints
    """[bids]: the row in the view of the VM that bids."""
    place: Ints
    """[bids]: its host, or the one that it would get now."""


def opened_book(snapshot: Snapshot, market: int, pricing: Pricing) -> OpenedBook:
    """Return the order book of a market, and the places that its orders take as it is cleared."""
    vms = snapshot.vms
    ordered = (vms.order != NO_ROW) & (vms.market == market)
    rows = np.flatnonzero(ordered & (vms.bidding | vms.starts))
    view = _at_full_size(snapshot, market, rows)
    places = OrderPlaces(snapshot, view, np.flatnonzero(is_one_of(view.vms, rows)))
    place = places.bidding()
    bidders = np.flatnonzero(place != NO_HOST)
    book = _book(snapshot, places, pricing, place, bidders)
    places.rank(book.height)
    return OpenedBook(places, book, bidders, place[bidders])


def _at_full_size(snapshot: Snapshot, market: int, rows: Ints) -> MarketView:
    """Return the view of a market in which all VMs of orders have their full size as floor."""
    count = len(rows)
    whole = OrderTerms(
        rows=rows,
        state=snapshot.vms.state[rows],
        movable=snapshot.vms.movable[rows],
        size=snapshot.vms.cap[rows],
        cost=np.zeros((count, len(snapshot.resources))),
        priority=np.zeros(count),
        coming=np.full(count, NO_HOST),
        priced=np.zeros(count, dtype=bool),
        most=np.zeros((count, len(snapshot.resources))),
        lingers=np.zeros(count, dtype=bool),
        stuck=np.zeros(count, dtype=bool),
        least=np.zeros((count, len(snapshot.resources))),
        leaving=np.zeros(0, dtype=np.int64),
        going=np.zeros(0, dtype=np.int64),
    )
    return market_view(with_order_terms(snapshot, whole), market)


def _book(
    snapshot: Snapshot, places: OrderPlaces, pricing: Pricing, place: Ints, others: Ints
) -> OrderBook:
    """Return the book with these VMs' bids; `place` is [VMs of the view]."""
    view, vms = places.view, places.members
    reserve = pricing.reserve_prices(snapshot.resources)
    count = len(places.orders)
    sizes = [np.bincount(places.order, size, count) for size in view.size[vms].T]
    bundle: Floats = np.stack(sizes, axis=1).astype(np.float64)  # numpy counts nothing in integers
    bid_of = snapshot.vms.bid[view.vms[vms]].sum(axis=1)
    limit = np.asarray(np.bincount(places.order, bid_of, count), dtype=np.float64)
    # Others can't use the room of VMs on drained hosts: these stay until they can be migrated.
    elsewhere = np.zeros_like(bundle)
    drained = np.append(~(view.open | view.disabled), False)[view.place[vms]]
    np.add.at(elsewhere, places.order[drained], view.size[vms[drained]])
    bid, floor, cap = (of[others] for of in view.counted(pricing.rule, place))
    # A VM that waits has no floor yet, and counts as far as it would pay.
    floor = np.where((view.place[others] == NO_HOST)[:, np.newaxis], 0.0, floor)
    total = view.total
    return OrderBook(
        Bids(bid, floor, cap),
        LimitOrders(limit, bundle, snapshot.orders.runs[places.orders]),
        total,
        _weights(snapshot, view.market, total, reserve),
        reserve,
        places.take,
        places.exist,
        elsewhere,
        walk=places.walk,
    )


def _weights(snapshot: Snapshot, market: int, total: Floats, reserve: Floats) -> Floats:
    """Return [resources]: the market's weights, or for its first orders the last prices."""
    markets = snapshot.markets
    if markets.weights.shape[1] and np.isfinite(markets.weights[market]).all():
        weights: Floats = markets.weights[market]
        return weights
    last = markets.announced[market] if markets.announced.shape[1] else np.zeros(len(total))
    return first_weights(last, total, reserve)
