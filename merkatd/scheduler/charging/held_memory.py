"""Charging memory that a VM holds beyond its share.

Where a guest's balloon does not work, its memory is left alone; where a guest uses more than its
share, or does not say what it uses, its memory is left to it for a time. It keeps others from
what it holds, so that is what it pays for, as it would for a floor.

# Note [VMs without a guest]

While OpenNebula copies a VM's disks, or does something else to them, the VM is busy on a host and
has no guest there: nothing computes, for as long as its owner likes. A guest that boots is not
there yet either, and an owner can make it boot whenever a period begins: with a high bid it would
keep a host's cores, and with a low one the room for all of its memory. Where OpenNebula carries out
deployments itself, a VM may wait for its own after the period that placed it, for ever if its owner
locks it. Such a VM counts as one that is off: it bids nothing, and keeps and pays for its floor.
When its guest starts, it gets the limits that a resumed VM gets (`starting_guests.py`). Only in the
period in which the daemon placed it does it keep its share from others, since the limits of its
neighbours were set for that: it pays for that period even if its guest did not start, or failed to
(`charged_time.py`). A failure may be the cloud's fault, but its owner can cause it as well: an
image that can't be copied would otherwise take a host from others for nothing, with a new VM in
each period.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import RESTING, Bools, Floats, Snapshot, Vms, VmState
from merkatd.limits import LimitPlan
from merkatd.scheduler.observation.snapshot_builder import MEMORY


def held_memory(snapshot: Snapshot, limits: LimitPlan) -> Mapping[str, Any]:
    """The column that a period keeps for its charge, where there is such a VM.

    [vms]: MiB, NaN for those that hold no more than their share, or whose memory is not known.
    """
    found = held(snapshot, limits)
    return {} if np.isnan(found).all() else {"holding_mib": found}


def held(snapshot: Snapshot, limits: LimitPlan) -> Floats:
    """[vms]: MiB that each holds whatever its share is, NaN for those that hold their share."""
    found = np.full(len(snapshot.vms), np.nan)
    if limits.holding_mib:
        rows = [snapshot.vm_row(vm) for vm in limits.holding_mib]
        found[rows] = list(limits.holding_mib.values())
        found[np.isnan(snapshot.vms.held[:, MEMORY])] = np.nan
    return found


def with_held(amounts: Floats, held_mib: Floats) -> Floats:
    """Return amounts, [vms, resources], with at least the memory that VMs hold."""
    found = amounts.copy()
    found[:, MEMORY] = np.fmax(found[:, MEMORY], held_mib)
    return found


def resumable(snapshot: Snapshot, prices: Floats) -> Mapping[str, Any]:
    """The columns of VMs that are off or failed, where there is such a VM.

    `rests` marks them. `reserved`, [vms, resources], is the floor that failed VMs keep: they have
    no allocation. `resumed`, [vms, resources], is what they could buy: what the bid buys at
    the period's price, and no more than the VM can use; 0 for all others.
    """
    vms = snapshot.vms
    off = rests(vms)
    if not off.any():
        return {}
    price = prices[np.where(off, vms.market, 0)]
    buys = np.divide(vms.bid, price, out=np.zeros_like(vms.bid), where=price > 0)
    failed = off & (vms.state == VmState.ABSENT)
    found = {
        "rests": off,
        "resumed": np.where(off[:, np.newaxis], np.minimum(buys, vms.cap), 0.0),
    }
    if failed.any():
        found["reserved"] = np.where(failed[:, np.newaxis], vms.floor, 0.0)
    return found


def rests(vms: Vms) -> Bools:
    """[vms]: keeps its floor on a host without running: is suspended, off, or failed there."""
    off = np.isin(vms.state, RESTING)
    failed = (vms.state == VmState.ABSENT) & (vms.host >= 0)
    found: Bools = (off | failed) & (vms.market >= 0)
    return found


def kept_at_rest(arrays: Mapping[str, Any]) -> Floats:
    """[vms, resources]: what each VM that does not run keeps from others."""
    allocation: Floats = arrays["allocation"]
    return np.maximum(allocation, arrays["reserved"]) if "reserved" in arrays else allocation


def floors(arrays: Mapping[str, Any]) -> Floats:
    """[vms, resources]: what each VM keeps from others whatever it bids."""
    if "floor" not in arrays:
        return np.zeros_like(arrays["bid"])
    if "holding_mib" not in arrays:
        found: Floats = arrays["floor"]
        return found
    return with_held(arrays["floor"], arrays["holding_mib"])


def amounts_given(arrays: Mapping[str, Any]) -> Floats:
    """[vms, resources]: what each VM had: its share, what it held, or what its bid buys.

    A VM that was off when the period was decided has no share. If its owner resumes it before the
    next period it runs without limits, and its bid counts as it would have with a share.
    """
    allocation: Floats = arrays["allocation"]
    if "resumed" in arrays:
        allocation = np.maximum(allocation, arrays["resumed"])
    if "holding_mib" not in arrays:
        return allocation
    found, holding = allocation.copy(), arrays["holding_mib"]
    found[:, MEMORY] = np.where(np.isnan(holding), found[:, MEMORY], holding)
    return found
