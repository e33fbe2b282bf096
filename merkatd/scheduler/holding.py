"""Charging memory that nobody can take back: what a VM holds, whatever its share is.

Where a guest's balloon does not work, its memory is left alone. It keeps others from what it
holds, so that is what it pays for.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import Floats, Snapshot
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


def given(arrays: Mapping[str, Any]) -> Floats:
    """[vms, resources]: what each VM had, its share or what it held."""
    allocation: Floats = arrays["allocation"]
    if "holding_mib" not in arrays:
        return allocation
    found, holding = allocation.copy(), arrays["holding_mib"]
    found[:, MEMORY] = np.where(np.isnan(holding), found[:, MEMORY], holding)
    return found
