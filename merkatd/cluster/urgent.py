"""Urgent VMs: new VMs, and VMs that may not stay on their hosts."""

import numpy as np

from merkatd.cluster.hosts import HostState
from merkatd.cluster.snapshot import Snapshot
from merkatd.cluster.vms import VmState


def urgent_vms(snapshot: Snapshot) -> frozenset[int]:
    """Return the ids of VMs that wait for a host, and of VMs that must leave theirs.

    VMs must leave drained hosts, and hosts with less capacity than the floors of their VMs.
    """
    vms, hosts = snapshot.vms, snapshot.hosts
    there = vms.host >= 0
    floors = np.zeros_like(hosts.capacity)
    np.add.at(floors, vms.host[there], vms.floor[there])
    left = (hosts.state == HostState.DRAINED) | (floors > hosts.capacity).any(axis=1)
    leaves = (vms.leaves | np.append(left, False)[vms.host]) & there
    urgent = vms.waiting | (leaves & (vms.state == VmState.RUNNING))
    return frozenset(vms.id[urgent].tolist())
