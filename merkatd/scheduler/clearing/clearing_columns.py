"""The columns that a decision stores about limit orders, and the next period's use of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from merkatd.cluster import BIDDING, Decision, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_ROW, is_one_of, values_of
from merkatd.cluster.orders import order_costs, order_payments
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

    `order_cost` is the cost of what a VM gets. `order_paid` is the cost of its full size; NaN for
    VMs that wait.
    """
    weights, terms = weight_columns(snapshot, decision, weights_age_s), decision.order_terms
    if terms is None:
        return weights
    return {
        "order_cost": order_costs(snapshot.vms, terms, decision.allocations),
        "order_paid": order_payments(snapshot.vms, terms),
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
    orders = replace(snapshot.orders, paid=_paid_last(snapshot, last))
    weights, age_s = advanced_weights(snapshot, last)
    markets = replace(snapshot.markets, weights=weights)
    return replace(snapshot, orders=orders, markets=markets), LastClearing(room, age_s)


def _paid_last(snapshot: Snapshot, last: Mapping[str, Any]) -> Floats:
    """Return [orders]: what the orders' VMs that take part paid per period; NaN if unknown."""
    vms, paid = snapshot.vms, np.full(len(snapshot.orders), np.nan)
    if "order_paid" not in last or last["order_paid"].shape[1] != len(snapshot.resources):
        return paid
    rows = np.flatnonzero((vms.order != NO_ROW) & (is_one_of(vms.state, BIDDING) | vms.starts))
    each = values_of(last["vm"], last["order_paid"].sum(axis=1), vms.id[rows], np.nan)
    known = ~np.isnan(each)
    totals = np.bincount(vms.order[rows[known]], each[known], len(paid))
    return np.where(np.bincount(vms.order[rows[known]], minlength=len(paid)) > 0, totals, paid)
