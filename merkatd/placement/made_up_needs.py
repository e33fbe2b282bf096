"""Made-up values in the parts of a snapshot that a strategy needs, for clouds that lack them.

The warm-up and the conformance suite decide such clouds. No decision of a real cloud uses them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot, UsageHistory, VmKind
from merkatd.cluster.applications import Jobs, Replicated, Services, Stages
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.contract import Need

_KINDS = ("network", "power")
_SAMPLES = 6
_SAMPLE_S = 60.0
_EVERY = 3
"""Of the VMs without an application, each third one belongs to a made-up application."""


def with_needs(snapshot: Snapshot, needs: Collection[Need]) -> Snapshot:
    """Return the snapshot with made-up values in the needed parts that it lacks.

    The same snapshot gets the same values. What it has stays.
    """
    for need in Need:
        if need in needs:
            snapshot = _MADE_UP[need](snapshot)
    return snapshot


def _domains(snapshot: Snapshot) -> Snapshot:
    """Fill the domains of hosts that are in none of any kind."""
    hosts = snapshot.hosts
    at = np.arange(len(hosts))
    without = np.ones(len(hosts), dtype=bool)
    for pairs in hosts.domains.values():
        without &= pairs[:, 0] < 0
    made = np.stack([at % 2, np.full(len(hosts), NO_ROW)], axis=1)
    domains = dict(hosts.domains)
    for kind in _KINDS:
        there = domains.get(kind, np.full((len(hosts), 2), NO_ROW))
        domains[kind] = np.where(without[:, np.newaxis], made, there)
    return replace(snapshot, hosts=replace(hosts, domains=domains))


def _topology(snapshot: Snapshot) -> Snapshot:
    hosts = snapshot.hosts
    if hosts.topology.shape[1]:
        return snapshot
    at = np.arange(len(hosts))
    return replace(
        snapshot, hosts=replace(hosts, topology=np.stack([np.zeros_like(at), at // 2], axis=1))
    )


def _history(snapshot: Snapshot) -> Snapshot:
    """Fill the history of all, or else of the hosts that have no sample. New VMs have none."""
    hosts, vms, history = snapshot.hosts, snapshot.vms, snapshot.history
    if history is None or not len(history.at_s):
        new = (vms.host == NO_HOST)[:, np.newaxis]
        return replace(
            snapshot,
            history=UsageHistory(
                at_s=snapshot.now_s - _SAMPLE_S * np.arange(_SAMPLES - 1, -1, -1.0),
                vms=_use(np.where(new, np.nan, vms.cap), _SAMPLES),
                hosts=_use(hosts.capacity, _SAMPLES),
            ),
        )
    without = np.asarray(np.isnan(history.hosts).all(axis=(0, 2)))
    made = _use(hosts.capacity, len(history.at_s))
    return replace(
        snapshot,
        history=replace(
            history, hosts=np.where(without[np.newaxis, :, np.newaxis], made, history.hosts)
        ),
    )


def _use(most: Floats, samples: int) -> Floats:
    """[samples, rows, resources]: a use that changes with time, and differs between rows."""
    time, row = np.arange(samples)[:, np.newaxis], np.arange(len(most))
    part = (1 + (time + row) % 4) / 5
    use: Floats = part[:, :, np.newaxis] * most
    return use


def _jobs(snapshot: Snapshot) -> Snapshot:
    if len(snapshot.jobs):
        return snapshot
    snapshot, number = _with_application(snapshot, VmKind.BATCH)
    now_s = snapshot.now_s
    return replace(
        snapshot,
        jobs=Jobs(
            application=number,
            submitted_s=np.array([now_s - 120.0]),
            started_s=np.array([now_s - 60.0]),
            goal_s=np.array([now_s + 3600.0]),
            work_done=np.array([5e3]),
        ),
        stages=Stages(
            job=np.array([0, 0]),
            work=np.array([1e4, 1e5]),
            least_speed=np.array([0.0, 10.0]),
            greatest_speed=np.array([100.0, 400.0]),
            memory_mib=np.array([64.0, 128.0]),
        ),
    )


def _services(snapshot: Snapshot) -> Snapshot:
    if len(snapshot.services):
        return snapshot
    snapshot, number = _with_application(snapshot, VmKind.SERVICE)
    return replace(
        snapshot,
        services=Services(
            application=number,
            response_goal_s=np.array([0.2]),
            arrivals_per_s=np.array([20.0]),
            work_per_request=np.array([2.0]),
            response_s=np.array([0.1]),
        ),
    )


def _replicated(snapshot: Snapshot) -> Snapshot:
    if len(snapshot.replicated):
        return snapshot
    snapshot, number = _with_application(snapshot, VmKind.SERVICE)
    return replace(
        snapshot,
        replicated=Replicated(
            application=number,
            needed=np.array([2]),
            run_time_s=np.array([7200.0]),
            reliability=np.array([0.99]),
        ),
    )


def _with_application(snapshot: Snapshot, kind: VmKind) -> tuple[Snapshot, Ints]:
    """Return the snapshot with a new application of some VMs, and its number, [1]."""
    vms = snapshot.vms
    tables = (snapshot.jobs, snapshot.services, snapshot.replicated)
    known = [vms.application, *(table.application for table in tables)]
    number = max((int(values.max()) for values in known if len(values)), default=NO_ROW) + 1
    free = np.flatnonzero(vms.application == NO_ROW)[::_EVERY]
    application, kinds = vms.application.copy(), vms.kind.copy()
    application[free], kinds[free] = number, int(kind)
    changed: dict[str, Any] = {"application": application, "kind": kinds}
    return replace(snapshot, vms=replace(vms, **changed)), np.array([number])


_MADE_UP: Mapping[Need, Callable[[Snapshot], Snapshot]] = {
    Need.JOBS: _jobs,
    Need.SERVICES: _services,
    Need.REPLICATED: _replicated,
    Need.DOMAINS: _domains,
    Need.TOPOLOGY: _topology,
    Need.HISTORY: _history,
}
