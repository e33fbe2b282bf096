"""Parts of hosts that others lack: they are paid for until they can be given to others.

# Note [Paid until the next period]

A VM pays for the time that it ran. That is not enough where its neighbours lack what it has:
their limits were set beside its part, and hold until the next period decides anew. A guest that
was off for all but five seconds of each period, failed while it booted, or was ended as soon as the
period had looked would keep most of a host from others for a tenth of the price.

So for each good that another VM of its host bids for and lacks, a VM pays for its part until the
next period, whether it ran or not. An example: a host of 8 cores, a VM with a bid of 20 that has
1.6 of them, and four more with the same bids. The VM is powered off 5 s after the period has
looked. Its four neighbours have 6.4 cores until the next period, at the end of the minute, and the
VM pays for 60 s. On a host with idle cores it pays for 10 s, the least charge.

A VM pays only for what its owner can bring about. A host that failed, and a deployment that
OpenNebula refused, are not its owner's fault. (For refusals that are, see
`refused_deployments.py`.) The next period often begins early once such a guest is gone
(`guest_watch.py`), so an honest owner pays for seconds, not for a minute.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Decision, Floats, HostState, Ints, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.limits.occupancy import occupancy_of
from merkatd.scheduler.base.ports import Observation

_ENOUGH = 0.98
"""Of what a VM can use: one that has so much lacks nothing."""

Arrays = Mapping[str, Any]


def contended(snapshot: Snapshot, decision: Decision) -> Bools:
    """[vms, resources]: has a part of its host that another VM there bids for and lacks."""
    vms, given = snapshot.vms, decision.allocations
    scene = occupancy_of(snapshot, decision.plan)
    there = ((scene.then != NOWHERE) & scene.bidding & (vms.market != NOWHERE))[:, np.newaxis]
    lacks = there & (vms.bid > 0) & (given < vms.cap * _ENOUGH)
    lacking = np.zeros((len(snapshot.hosts) + 1, given.shape[1]), dtype=np.int64)
    np.add.at(lacking, scene.then, lacks)
    found: Bools = there & (given > 0) & (lacking[scene.then] > lacks)
    return found


def seconds_by_good(
    arrays: Arrays, seen: Observation, ran_s: Floats, passed_s: float, waited: Bools
) -> Floats:
    """[vms, resources]: for how long each VM pays for its part, of VMs that ran for `ran_s`.

    `waited`: was placed, and its host had it, but it did not run.
    """
    seconds = np.broadcast_to(ran_s[:, np.newaxis], arrays["bid"].shape)
    if "contended" not in arrays:
        return seconds.copy()
    placed = arrays["placed"] & ((ran_s > 0) | waited)
    kept = (arrays["runs"] | placed) & ~_host_failed(arrays["vm"], seen)
    return np.where(arrays["contended"] & kept[:, np.newaxis], passed_s, seconds)


def _host_failed(vms: Ints, seen: Observation) -> Bools:
    """[vms]: is on a host that is off."""
    off = seen.host_id[seen.host_state == HostState.OFF]
    found: Bools = np.isin(vms, seen.vm_id[np.isin(seen.vm_host, off)])
    return found
