"""The columns that a decision stores about limit orders, and the next period's use of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW, Bools, rows_of, values_of
from merkatd.cluster.orders import OrderTerms, order_costs
from merkatd.scheduler.clearing.cleared_room import ClearedRoom, cleared_room
from merkatd.scheduler.clearing.stored_weights import advanced_weights, weight_columns


@dataclass(frozen=True, slots=True, eq=False)
class LastClearing:
    """What the last decision stored about limit orders, apart from the terms of the snapshot."""

    room: ClearedRoom | None = None
    """The room that was cleared for limit orders before; None if there is none."""
    weights_age_s: Floats | None = None
    """[markets]: the time for which the weights of limit orders' goods were averaged."""


def clearing_columns(
    snapshot: Snapshot, decision: Decision, weights_age_s: Floats | None
) -> Mapping[str, Floats]:
    """Return the columns of what VMs in limit orders cost per period, and of goods' weights.

    `order_cost` is the cost of what a VM gets. `order_most` is the most that it pays if it is
    displaced and not being saved; NaN otherwise.
    """
    weights, terms = weight_columns(snapshot, decision, weights_age_s), decision.order_terms
    if terms is None:
        return weights
    return {
        "order_cost": order_costs(snapshot.vms, terms, decision.allocations, decision.prices),
        "order_most": _most_of_displaced(snapshot, terms),
        **weights,
    }


def room_columns(
    snapshot: Snapshot,
    decision: Decision,
    accounts: Ints,
    before: ClearedRoom | None,
    interval_s: float,
) -> Mapping[str, Any]:
    """Return the columns of the room that was cleared for limit orders, if there is any."""
    if before is None and decision.order_terms is None:
        return {}
    last = before or ClearedRoom.none(len(snapshot.resources))
    return cleared_room(snapshot, decision, accounts, last, interval_s).columns()


def with_last_clearing(
    snapshot: Snapshot, last: Mapping[str, Any] | None
) -> tuple[Snapshot, LastClearing]:
    """Return the cloud with what the last decision stored about limit orders, and the rest of it.

    `last` are the stored columns of that decision.
    """
    if last is None:
        return snapshot, LastClearing()
    stored = ClearedRoom.stored(last, len(snapshot.resources))
    room = stored if len(stored.vm) else None
    if not len(snapshot.orders):
        return snapshot, LastClearing(room)
    weights, age_s = advanced_weights(snapshot, last)
    markets = replace(snapshot.markets, weights=weights)
    seen = replace(snapshot, markets=markets)
    shape = len(last["vm"]), len(snapshot.resources)
    if last["bid"].shape == shape and last["price"].shape[1] == shape[1]:
        seen = _with_last_payments(seen, last)
    return seen, LastClearing(room, age_s)


def _with_last_payments(snapshot: Snapshot, last: Mapping[str, Any]) -> Snapshot:
    """Return the cloud with what VMs of orders had, paid and could cost by the last decision.

    The stored bid of a VM in a limit order is its part of the limit. Other VMs paid for what their
    bids bought. VMs that were off had nothing.
    """
    vms, there = snapshot.vms, last["runs"] | last["placed"]
    order_cost = last.get("order_cost", np.full(last["bid"].shape, np.nan))
    ordered = ~np.isnan(order_cost).all(axis=1)
    had = last["allocation"]
    price = np.where(had > 0, last["price"][last["market"]], 0.0)
    worth = np.multiply(price, had, out=np.zeros_like(price), where=had > 0)
    paid = np.where(ordered[:, np.newaxis], order_cost, np.minimum(worth, last["bid"]))
    most = np.fmax(last["bid"], paid)
    if "order_most" in last:
        most = np.fmax(most, last["order_most"])
    inside = last["market"] != NO_MARKET
    paid[~(there & inside)] = most[~((there | ordered) & inside)] = np.nan
    on_host = (vms.order != NO_ROW) & (vms.host != NO_HOST)
    takes_part = (vms.order != NO_ROW) & (vms.bidding | vms.starts)
    kept = np.full(vms.cap.shape, np.nan)
    row = rows_of(last["vm"], vms.id)
    known = on_host & (row != NO_ROW)
    kept[known] = np.where(there[row[known], np.newaxis], had[row[known]], np.nan)
    orders = replace(
        snapshot.orders,
        paid=_totals(snapshot, last["vm"], paid, takes_part),
        earlier_limit=_totals(snapshot, last["vm"], most, on_host),
    )
    return replace(snapshot, orders=orders, vms=replace(vms, kept=kept))


def _totals(snapshot: Snapshot, ids: Ints, amounts: Floats, which: Bools) -> Floats:
    """Return [orders]: the sums of amounts, by id of a VM, of these VMs; NaN without any."""
    count, rows = len(snapshot.orders), np.flatnonzero(which)
    each = values_of(ids, amounts.sum(axis=1), snapshot.vms.id[rows], np.nan)
    rows, each = rows[~np.isnan(each)], each[~np.isnan(each)]
    order = snapshot.vms.order[rows]
    sums = np.bincount(order, each, count)
    return np.where(np.bincount(order, minlength=count) > 0, sums, np.nan)


def _most_of_displaced(snapshot: Snapshot, terms: OrderTerms) -> Floats:
    """Return [vms, resources]: the most credits per period of displaced VMs; NaN for others."""
    most = np.full(snapshot.vms.cap.shape, np.nan)
    most[terms.rows[terms.priced]] = terms.most[terms.priced]
    return most
