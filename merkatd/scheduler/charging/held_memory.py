"""Held memory: the charge for memory that a VM has beyond its share.

If a guest's balloon does not work, its memory is left alone. If a guest uses more than its share,
or does not report its use, its memory is left to it for a time. Other VMs can't have that memory,
so the VM pays for it as for a floor.

# Note [VMs without a guest]

While OpenNebula copies a VM's disks, or works on them otherwise, the VM is busy on a host without a
guest. Nothing computes, for as long as the owner likes. A booting guest is not there yet either,
and an owner can let it boot whenever a period begins. A high bid would then keep a host's cores
from others, and a low bid the room for all of its memory. If OpenNebula carries out deployments
itself, a placed VM may wait after its period, for ever if its owner locks it.

Such a VM counts as powered off: it bids nothing, and keeps and pays for its floor. When its guest
starts, it gets the limits of a resumed VM (`starting_guests.py`).

Only in the period that placed it does such a VM keep its share, because its neighbours' limits were
set for that. It pays for that period even if its guest did not start, or failed to
(`charged_time.py`). A failure may be the cloud's fault, but an owner can cause one too. With an
image that can't be copied, and a new VM in each period, the owner would otherwise block a host for
free.

# Note [Claims without a guest]

The claim to memory of a VM without a guest holds while its disks are copied, and while the daemon
starts it again after a failed boot. Otherwise its host could be full when it starts. A claim beyond
the memory that the VM needs must be paid like the claim of a running VM: the bid pays for it, or it
does not hold, and it costs price times amount, at most the bid. At the reserve price a VM whose
boot failed once could claim a whole host from VMs that bid, for as long as its claim does not fit.
Example: three VMs bid 20 each for 16 GiB. A failed VM claimed 16,000 MiB without a bid and paid 1.6
in each period, and the three paid 60 for 576 MiB.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import RESTING, Bools, Floats, Snapshot, Vms, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.limits import LimitPlan
from merkatd.scheduler.observation.snapshot_builder import MEMORY

CLOSE = 1e-9
"""The part by which amounts may differ because of rounding."""


def held_memory(snapshot: Snapshot, limits: LimitPlan) -> Mapping[str, Any]:
    """Return the column of held memory that a period stores for its charge, if any VM needs it.

    [vms]: MiB, NaN for VMs that have no more than their share, or whose memory is unknown.
    """
    held_mib = held(snapshot, limits)
    return {} if np.isnan(held_mib).all() else {"holding_mib": held_mib}


def held(snapshot: Snapshot, limits: LimitPlan) -> Floats:
    """[vms]: MiB that each VM has regardless of its share; NaN for VMs that have their share."""
    held_mib = np.full(len(snapshot.vms), np.nan)
    if limits.holding_mib:
        rows = [snapshot.vm_row(vm) for vm in limits.holding_mib]
        held_mib[rows] = list(limits.holding_mib.values())
        held_mib[np.isnan(snapshot.vms.held[:, MEMORY])] = np.nan
    return held_mib


def with_held(amounts: Floats, held_mib: Floats) -> Floats:
    """Return amounts, [vms, resources], with at least the memory that VMs have."""
    enlarged = amounts.copy()
    enlarged[:, MEMORY] = np.fmax(enlarged[:, MEMORY], held_mib)
    return enlarged


def resumable(snapshot: Snapshot, prices: Floats, kept: Floats | None = None) -> Mapping[str, Any]:
    """Return the columns for VMs that are off or failed, if there are any.

    `rests` marks them. `reserved`, [vms, resources], is the floor of failed VMs, which have no
    allocation. `resumed`, [vms, resources], is the amount that the VM could buy: its bid at the
    period's price, limited to its cap; 0 for all others. A VM of a limit order that starts has all
    of its cap. `claims` marks those with more memory than `kept`, the amounts that VMs have
    regardless of their bids.
    """
    vms = snapshot.vms
    off = has_floor_at_rest(vms)
    if not off.any():
        return {}
    price = prices[np.where(off, vms.market, 0)]
    buys = np.divide(vms.bid, price, out=np.zeros_like(vms.bid), where=price > 0)
    buys[vms.starts] = np.inf
    failed = off & (vms.state == VmState.ABSENT)
    columns = {
        "rests": off,
        "resumed": np.where(off[:, np.newaxis], np.minimum(buys, vms.cap), 0.0),
    }
    if kept is not None:
        claims = off & (vms.floor[:, MEMORY] > kept[:, MEMORY] * (1 + CLOSE))
        if claims.any():
            columns["claims"] = claims
    if failed.any():
        columns["reserved"] = np.where(failed[:, np.newaxis], vms.floor, 0.0)
    return columns


def has_floor_at_rest(vms: Vms) -> Bools:
    """[vms]: whether the VM has a floor on a host without running: suspended, off, or failed."""
    off = is_one_of(vms.state, RESTING)
    failed = (vms.state == VmState.ABSENT) & (vms.host >= 0)
    keeps: Bools = (off | failed) & (vms.market >= 0)
    return keeps


def kept_at_rest(arrays: Mapping[str, Any]) -> Floats:
    """[vms, resources]: the amounts that each VM keeps from others while it does not run."""
    allocation: Floats = arrays["allocation"]
    return np.maximum(allocation, arrays["reserved"]) if "reserved" in arrays else allocation


def floors(arrays: Mapping[str, Any]) -> Floats:
    """[vms, resources]: the amounts that each VM keeps from others regardless of its bid."""
    if "floor" not in arrays:
        return np.zeros_like(arrays["bid"])
    if "holding_mib" not in arrays:
        least: Floats = arrays["floor"]
        return least
    return with_held(arrays["floor"], arrays["holding_mib"])


def beyond_share(arrays: Mapping[str, Any]) -> Floats:
    """[vms]: MiB that each VM has beyond its share; 0 for VMs without held memory."""
    share = arrays["allocation"][:, MEMORY]
    beyond: Floats = np.fmax(arrays["holding_mib"] - share, 0.0)
    return beyond


def amounts_given(arrays: Mapping[str, Any]) -> Floats:
    """[vms, resources]: the amounts of each VM: its share, its held memory, or what its bid buys.

    A VM that was off at the decision has no share. If its owner resumes it before the next period,
    it runs without limits, and its bid counts as it would have with a share.
    """
    allocation: Floats = arrays["allocation"]
    if "resumed" in arrays:
        allocation = np.maximum(allocation, arrays["resumed"])
    if "holding_mib" not in arrays:
        return allocation
    given, holding = allocation.copy(), arrays["holding_mib"]
    given[:, MEMORY] = np.where(np.isnan(holding), given[:, MEMORY], holding)
    return given
