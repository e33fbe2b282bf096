"""What the VMs of applications used lately, by the newest sample of a snapshot."""

from collections.abc import Mapping

import numpy as np

from merkatd.cluster import Snapshot


def used_by_applications(
    snapshot: Snapshot, resource: str, *, assume_all: bool = False
) -> Mapping[int, float]:
    """Return what the VMs of each application used lately, by the application's id.

    An application with a VM of unknown use is left out, unless `assume_all`: then such a VM counts
    with the most that it can use.
    """
    history, vms = snapshot.history, snapshot.vms
    if history is None or not len(history.at_s) or resource not in snapshot.resources:
        return {}
    column = snapshot.resources.index(resource)
    used = history.vms[-1][:, column]
    if assume_all:
        used = np.where(np.isnan(used), vms.cap[:, column], used)
    there = np.flatnonzero((vms.application >= 0) & vms.bidding & (vms.host >= 0))
    applications, row = np.unique(vms.application[there], return_inverse=True)
    totals = np.zeros(len(applications))
    np.add.at(totals, row, used[there])
    pairs = zip(applications.tolist(), totals.tolist(), strict=True)
    return {application: total for application, total in pairs if not np.isnan(total)}
