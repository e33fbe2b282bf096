"""Limit orders that lack leases, devices or space even without all other VMs.

A limit order that waits raises prices, so it must be one that could run. Strategies know the room
on hosts, and not these resources. So the scheduler takes such orders out before it decides.
Otherwise an order of two VMs could raise prices for ever although only one lease is left.
"""

import numpy as np

from merkatd.cluster import HostState, Snapshot, VmState
from merkatd.cluster.columns import NO_MARKET, NO_ROW
from merkatd.scheduler.base.ports import CapacityPort


def never_starting(snapshot: Snapshot, stock: CapacityPort) -> dict[int, str]:
    """Return, by id, the waiting VMs of limit orders that could not start without other VMs."""
    vms, table = snapshot.vms, snapshot.hosts
    waits = np.flatnonzero((vms.order != NO_ROW) & (vms.state == int(VmState.PENDING)))
    waits = waits[vms.market[waits] != NO_MARKET]
    waits = waits[np.argsort(vms.order[waits], kind="stable")]
    orders, first = np.unique(vms.order[waits], return_index=True)
    hosts: dict[int, list[int]] = {}
    late: dict[int, str] = {}
    for order, rows in zip(orders.tolist(), np.split(waits, first[1:]), strict=False):
        market = int(vms.market[rows[0]])
        if market not in hosts:
            open_ = (table.market == market) & (table.state == int(HostState.ON))
            hosts[market] = table.id[open_].tolist()
        ids = vms.id[rows].tolist()
        why = stock.why_never(ids, hosts[market])
        if why is not None:
            name = int(snapshot.orders.id[order])
            late |= dict.fromkeys(ids, f"limit order {name} waits: {why}")
    return late
