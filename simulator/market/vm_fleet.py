"""The hosts of a simulated cloud, and its VMs as a snapshot."""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster import Floats, HostState, Ints, Snapshot
from merkatd.cluster.columns import NO_ROW
from merkatd.cluster.hosts import Hosts, Markets
from merkatd.cluster.vms import Vms
from simulator.market.tenancy import Tenancy
from simulator.model.simulated_cloud import CORE, RESOURCES, SimulatedCloud

_NONE: Ints = np.zeros(0, dtype=np.int64)


def hosts_of(cloud: SimulatedCloud) -> Hosts:
    """Return the nodes, which never change."""
    count = cloud.nodes
    return Hosts(
        id=np.arange(count),
        name=tuple(f"node{row}" for row in range(count)),
        state=np.full(count, int(HostState.ON)),
        market=np.zeros(count, dtype=np.int64),
        capacity=np.tile([cloud.cpu, cloud.memory_mib], (count, 1)),
        used=np.zeros((count, len(RESOURCES))),
        domains={},
        topology=np.zeros((count, 0), dtype=np.int64),
        link_mbps=np.full(count, np.nan),
    )


def snapshot_of(
    hosts: Hosts,
    tenancies: Sequence[Tenancy],
    state: Ints,
    bid: Floats,
    now_s: float,
    period: int,
    *,
    may_move: bool,
) -> Snapshot:
    """Return the snapshot that the daemon would observe now; `state` and `bid` have all VMs."""
    size = np.array([each.application.tasks for each in tenancies], dtype=np.int64)
    row = np.repeat(np.arange(len(size)), size)
    count = len(row)
    first = np.array([each.first_vm for each in tenancies], dtype=np.int64)[row]
    memory = np.array([each.application.memory_mib for each in tenancies])[row]
    application = np.array([each.row for each in tenancies], dtype=np.int64)[row]
    vms = Vms(
        id=first + np.arange(count) - (np.cumsum(size) - size)[row],
        name=("",) * count,
        state=state,
        host=np.concatenate([_NONE, *(each.host for each in tenancies)]),
        market=np.zeros(count, dtype=np.int64),
        bid=bid,
        floor=np.zeros_like(bid),
        cap=np.stack([np.full(count, CORE), memory], axis=1),
        held=np.zeros((count, len(RESOURCES))),
        application=application,
        owner=application,
        vcpus=np.ones(count, dtype=np.int64),
        moved_at_s=np.concatenate([np.zeros(0), *(each.moved_at_s for each in tenancies)]),
        movable=np.full(count, may_move),
        requirement=np.full(count, NO_ROW),
        role=np.full(count, NO_ROW),
        dirty_mib_s=np.full(count, np.nan),
        kind=np.ones(count, dtype=np.int64),
    )
    return Snapshot(now_s, period, RESOURCES, Markets(("simulated",)), hosts, vms)
