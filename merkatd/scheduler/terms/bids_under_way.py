"""Bids of VMs in transition, and VMs whose bids have fallen."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import HostState, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW, rows_of

_AS_BEFORE = 0.99
"""The part of an old bid from which on a new bid counts as unchanged."""


def with_bids_under_way(snapshot: Snapshot, last: Mapping[str, Any] | None) -> Snapshot:
    """Return the cloud in which no VM in transition bids less than in the previous period.

    A guest that migrates, boots or is saved can't get new limits before it arrives. It keeps its
    earlier share, and pays the earlier bid as far as its payer can. A guest that writes to its
    memory all the time can delay a migration for hours. So a VM with a lower bid than before
    (whether or not it is affordable) first gets its new limits and is migrated afterwards, unless
    it must leave its host.

    A VM that was off had no limits, and its bid was not lowered to an affordable one, so its
    earlier bid does not count. `last` are the columns that the previous decision stored.
    """
    vms, hosts = snapshot.vms, snapshot.hosts
    if last is None or last["bid"].shape[1] != vms.bid.shape[1]:
        return snapshot
    row = rows_of(last["vm"], vms.id)
    had = last["runs"] | last["placed"]
    known = (row != NO_ROW) & (vms.host != NO_HOST) & np.append(had, False)[row]
    before = np.where(known[:, np.newaxis], last["bid"][row], 0.0) if len(last["vm"]) else 0.0
    # The parts of an order's limit are new in each period: old ones could exceed it together.
    on_its_way = (vms.state == VmState.BUSY) & ~vms.stays & (vms.order == NO_ROW)
    bid = np.where(on_its_way[:, np.newaxis], np.maximum(vms.bid, before), vms.bid)
    lowered = (vms.bid < before * _AS_BEFORE).any(axis=1)
    goes = vms.leaves | np.append(hosts.state == HostState.DRAINED, False)[vms.host]
    movable = vms.movable & (goes | ~lowered)
    return replace(snapshot, vms=replace(vms, bid=bid, movable=movable))
