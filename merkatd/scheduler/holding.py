"""Charging memory that nobody can take back: what a VM holds, whatever its share is.

Where a guest's balloon does not work, its memory is left alone. It keeps others from what it
holds, so that is what it pays for.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import RESTING, Floats, Snapshot
from merkatd.limits import Limits
from merkatd.scheduler.snapshot import MEMORY


def kept(snapshot: Snapshot, limits: Limits) -> Mapping[str, Any]:
    """The column that a period keeps for its charge, where there is such a VM.

    [vms]: MiB, NaN for those whose memory follows their share, or of which nobody knows.
    """
    seen = ~np.isnan(snapshot.vms.held[:, MEMORY])
    holding = np.array([limits.holding_mib.get(vm, np.nan) for vm in snapshot.vms.id.tolist()])
    found = np.where(seen, holding, np.nan)
    return {} if np.isnan(found).all() else {"holding_mib": found}


def resumable(snapshot: Snapshot, prices: Floats) -> Mapping[str, Any]:
    """The columns of VMs that are off, where there is such a VM.

    `rests` marks them. `resumed`, [vms, resources], is what they could buy: what the bid buys at
    the period's price, and no more than the VM can use; 0 for all others.
    """
    vms = snapshot.vms
    off = np.isin(vms.state, RESTING) & (vms.market >= 0)
    if not off.any():
        return {}
    price = prices[np.where(off, vms.market, 0)]
    buys = np.divide(vms.bid, price, out=np.zeros_like(vms.bid), where=price > 0)
    return {"rests": off, "resumed": np.where(off[:, np.newaxis], np.minimum(buys, vms.cap), 0.0)}


def given(arrays: Mapping[str, Any]) -> Floats:
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
