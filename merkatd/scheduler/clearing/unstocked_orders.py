"""Limit orders that lack leases, devices or space even without all other VMs.

A limit order that waits raises prices, so it must be one that could run. Strategies know the room
on hosts, and not these resources. So the scheduler takes such orders out before it decides.
Otherwise an order of two VMs could raise prices for ever although only one lease is left.
"""

import numpy as np

from merkatd.cluster import HostState, Snapshot
from merkatd.cluster.columns import NO_MARKET, NO_ROW
from merkatd.scheduler.base.ports import CapacityPort


def never_starting(snapshot: Snapshot, stock: CapacityPort) -> dict[int, str]:
    """Return, by id, the waiting VMs of limit orders that could not start without other VMs."""
    vms, table = snapshot.vms, snapshot.hosts
    waits = np.flatnonzero((vms.order != NO_ROW) & vms.waiting)
    waits = waits[vms.market[waits] != NO_MARKET]
    waits = waits[np.argsort(vms.order[waits], kind="stable")]
    orders, first = np.unique(vms.order[waits], return_index=True)
    gangs = np.split(waits, first[1:])
    market = vms.market[waits[first]]
    late: dict[int, str] = {}
    for number in np.unique(market).tolist():
        open_ = (table.market == number) & (table.state == int(HostState.ON))
        mine = np.flatnonzero(market == number).tolist()
        ids = [vms.id[gangs[row]].tolist() for row in mine]
        reasons = stock.why_never(ids, table.id[open_].tolist())
        for row, gang, why in zip(mine, ids, reasons, strict=True):
            if why is not None:
                order = int(snapshot.orders.id[orders[row]])
                late |= dict.fromkeys(gang, f"limit order {order} waits: {why}")
    return late
