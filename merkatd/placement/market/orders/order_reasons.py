"""Why limit orders and their VMs wait, for their tenants."""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from merkatd.base.quantities import credits_text, resource_amounts
from merkatd.cluster import Bools, Deploy, Floats, Ints, Plan, Snapshot, Step, Stop, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of
from merkatd.cluster.orders import OrderTerms
from merkatd.market.explanation import hosts_after
from merkatd.market.limit_orders import Clearing, OrderBook
from merkatd.market.odds.limit_odds import BEYOND, rounded_up
from merkatd.placement.market.orders.order_places import OrderPlaces


def why_waiting(
    snapshot: Snapshot,
    places: OrderPlaces,
    book: OrderBook,
    cleared: Clearing,
    lacked: Floats,
    local: Floats,
) -> dict[int, str]:
    """Return, by order, why it waits.

    `lacked`, [orders], are the limits that would start it, and `local` those in local markets.
    """
    why: dict[int, str] = {}
    waits = np.flatnonzero(~cleared.runs | places.later)
    ids = snapshot.orders.id[places.orders[waits]]
    columns = (column.tolist() for column in (waits, lacked[waits], book.orders.limit[waits], ids))
    for at, needed, limit, order in zip(*columns, strict=True):
        units, name = book.orders.bundle[at], f"limit order {order}"
        is_local = local[at] > 0 and local[at] >= needed
        bid_more = ": VMs that can't leave its hosts bid more" if is_local else ""
        if cleared.runs[at]:
            why[at] = f"{name} starts once other VMs have left its hosts"
        elif cleared.placeless[at]:
            why[at] = (
                f"{name} waits: no hosts have room for all of its VMs, "
                f"{_amounts(snapshot, units)} together"
            )
        elif needed < BEYOND:
            why[at] = (
                f"{name} waits: its limit is {credits_text(limit)} credits per period, and it would"
                f" start with {credits_text(rounded_up(needed))}{bid_more}"
            )
        elif is_local:
            why[at] = (
                f"{name} waits: it needs {_amounts(snapshot, units)}, and VMs that can't leave its"
                " hosts leave less at any price"
            )
        elif needed < inf:
            why[at] = (
                f"{name} waits: it needs {_amounts(snapshot, units)}, and other VMs leave less at"
                " any price"
            )
        else:
            why[at] = f"{name} waits: floors leave less than {_amounts(snapshot, units)}"
    return why


def _amounts(snapshot: Snapshot, units: Floats) -> str:
    return resource_amounts(snapshot.resources, units.tolist())


def split_orders(snapshot: Snapshot, plan: Plan) -> Mapping[int, str]:
    """Return, by id, the waiting VMs of orders of which the plan starts some and not others."""
    vms = snapshot.vms
    waits = np.flatnonzero((vms.order != NO_ROW) & vms.waiting)
    if not len(waits):
        return {}
    now = [step.vm for step in plan.of(Deploy) if not step.after]
    starts = is_one_of(vms.id[waits], now)
    order = vms.order[waits]
    split = is_one_of(order, np.intersect1d(order[starts], order[~starts]))
    names = snapshot.orders.id[order[split]].tolist()
    return {
        vm: f"limit order {name} waits: no room was found for all of its VMs"
        for vm, name in zip(vms.id[waits[split]].tolist(), names, strict=True)
    }


def unmoved_vms(snapshot: Snapshot, allowed: Mapping[int, Bools], plan: Plan) -> Mapping[int, str]:
    """Return, by id, the VMs that stay on a host which their orders don't pay for.

    `allowed` is [hosts] by row of a VM. Two orders that must change places can't: each waits for
    the other.
    """
    host, vms = hosts_after(snapshot, plan), snapshot.vms
    rows = [row for row, on in allowed.items() if host[row] != NO_HOST and not on[host[row]]]
    orders = snapshot.orders.id[vms.order[rows]].tolist()
    return {
        vm: f"limit order {order} pays for this host: the VM can't be moved to a cheaper one"
        for vm, order in zip(vms.id[rows].tolist(), orders, strict=True)
    }


def takers(
    snapshot: Snapshot, terms: OrderTerms | None, steps: Sequence[Step]
) -> Mapping[int, str]:
    """Return, by id, the waiting VMs of resting orders that would take room from other VMs.

    `terms` and `steps` are those of the cleared orders.
    """
    if terms is None or not snapshot.orders.rests.any():
        return {}
    order = snapshot.vms.order[terms.rows]
    rests = snapshot.orders.rests[order] & snapshot.vms.waiting[terms.rows]
    takes = rests & (terms.coming != NO_HOST)
    if len(terms.leaving) or any(isinstance(step, Stop) for step in steps):
        takes |= rests & (terms.state == VmState.PENDING)
    return _with_reason(snapshot, terms.rows[takes], "other VMs would have to leave for it")


def waiting_in_rest(snapshot: Snapshot) -> Mapping[int, str]:
    """Return, by id, all waiting VMs of resting orders, with the reason why they wait on."""
    vms = snapshot.vms
    ordered = np.flatnonzero((vms.order != NO_ROW) & vms.waiting)
    rows = ordered[snapshot.orders.rests[vms.order[ordered]]]
    return _with_reason(snapshot, rows, "it rests, and too many resting orders need others' room")


def _with_reason(snapshot: Snapshot, rows: Ints, why: str) -> dict[int, str]:
    """Return the reason by id of these waiting VMs of orders."""
    vms = snapshot.vms.id[rows].tolist()
    orders = snapshot.orders.id[snapshot.vms.order[rows]].tolist()
    waits = zip(vms, orders, strict=True)
    return {vm: f"limit order {order} waits: {why}" for vm, order in waits}
