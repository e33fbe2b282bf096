"""Hosts with enough memory for the guests that start on them.

A guest starts with all of its memory, and its balloon needs minutes to take back the unpaid part.
On a host with less memory it might not start, or take its neighbours' memory. All VMs that wait for
memory there would have to wait longer.
"""

from dataclasses import replace

import numpy as np

from merkatd.limits.enforced_limits import MEMORY
from merkatd.placement.base.narrowed_hosts import narrowed_to
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.snapshot_builder import MEMORY as COLUMN


def on_large_hosts(observed: Observed) -> Observed:
    """Return the cloud in which no VM goes to a host that is too small for its guest's start."""
    snapshot = observed.snapshot
    if MEMORY not in snapshot.resources:
        return observed
    vms, capacity = snapshot.vms, snapshot.hosts.capacity[:, COLUMN]
    starts_with = observed.in_force.boots_with(vms.cap[:, COLUMN])
    # A host without memory does not count: it is off, or not known yet.
    least = capacity[capacity > 0].min(initial=np.inf)
    here = np.arange(len(capacity))
    large = np.flatnonzero(starts_with > least)
    for size in np.unique(starts_with[large]).tolist():
        there = (capacity >= size) | (capacity <= 0)
        rows = large[starts_with[large] == size].tolist()
        narrow = {row: there | (here == vms.host[row]) for row in rows}
        label = f"a host with {size:,.0f} MiB of memory, which its guest needs to start"
        snapshot = narrowed_to(snapshot, narrow, label)
    return replace(observed, snapshot=snapshot)
