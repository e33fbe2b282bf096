"""Clouds with limit orders, drawn from a seed."""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Deploy, Migrate, Orders, Requirements, Snapshot, Stop, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW

LARGEST_GANG = 16


def with_gangs(snapshot: Snapshot, seed: int, waiting: float) -> Snapshot:
    """Return the cloud with a third of its VMs in limit orders of 1 to 16 VMs.

    `waiting` is the part of the orders whose VMs are pending. The VMs of other orders run.
    """
    rng, vms = np.random.default_rng(seed), snapshot.vms
    size = rng.integers(1, LARGEST_GANG + 1, len(vms))
    size = size[: int(np.searchsorted(np.cumsum(size), len(vms) // 3))]
    gang = np.repeat(np.arange(len(size)), size)
    members = rng.permutation(len(vms))[: len(gang)]
    order = np.full(len(vms), NO_ROW)
    order[members] = gang
    bid = vms.bid.copy()
    bid[members] *= rng.lognormal(0.0, 1.0, len(size))[gang][:, np.newaxis]
    waits = np.zeros(len(vms), dtype=bool)
    waits[members] = (rng.random(len(size)) < waiting)[gang]
    floor = vms.floor.copy()
    floor[members] = 0.0
    announced = vms.bid.sum(axis=0) / snapshot.hosts.capacity.sum(axis=0)
    return replace(
        snapshot,
        vms=replace(
            vms,
            order=order,
            bid=bid,
            floor=floor,
            host=np.where(waits, NO_HOST, vms.host),
            state=np.where(waits, int(VmState.PENDING), vms.state),
        ),
        orders=Orders(id=np.arange(len(size))),
        markets=replace(snapshot.markets, announced=announced[np.newaxis]),
    )


def in_clusters(snapshot: Snapshot, clusters: int, seed: int) -> Snapshot:
    """Return the cloud in which each VM may use only the hosts of one cluster."""
    vms, rng = snapshot.vms, np.random.default_rng(seed)
    cluster = np.arange(len(snapshot.hosts)) % clusters
    drawn = rng.integers(0, clusters, len(vms))
    requirements = Requirements(
        name=tuple(f"cluster {number}" for number in range(clusters)),
        allowed=cluster == np.arange(clusters)[:, np.newaxis],
    )
    home = np.where(vms.host >= 0, cluster[vms.host], drawn)
    return replace(snapshot, vms=replace(vms, requirement=home), requirements=requirements)


def next_period(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """Return the cloud once a decision's steps are done."""
    vms = snapshot.vms
    host, state = vms.host.copy(), vms.state.copy()
    for step in decision.plan:
        vm = snapshot.vm_row(step.vm)
        if isinstance(step, Stop):
            host[vm], state[vm] = NO_HOST, int(VmState.PENDING)
        elif isinstance(step, Deploy | Migrate):
            host[vm], state[vm] = snapshot.host_row(step.host), int(VmState.RUNNING)
    markets = replace(snapshot.markets, announced=decision.prices)
    return replace(snapshot, vms=replace(vms, host=host, state=state), markets=markets)
