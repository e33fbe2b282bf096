"""The VMs of all applications as a snapshot, and the effects of a decision on them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Decision, Deploy, Floats, HostState, Ints, Migrate, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.cluster.hosts import Hosts, Markets
from merkatd.cluster.vms import Vms
from simulator.market.tenancy import Phase, Tenancy
from simulator.model.simulated_cloud import CORE, RESOURCES, SimulatedCloud

_BUSY, _PENDING, _RUNNING = int(VmState.BUSY), int(VmState.PENDING), int(VmState.RUNNING)


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


@dataclass(frozen=True, slots=True)
class Columns:
    """The rows of each application in a snapshot."""

    tenancies: tuple[Tenancy, ...]
    starts: Ints
    """[applications + 1]: the first row of each application."""
    size: Ints
    """[applications]: the number of rows."""

    def spread(self, values: Sequence[float]) -> Floats:
        """Return [vms]: the value of each VM's application."""
        spread: Floats = np.repeat(np.array(values, dtype=float), self.size)
        return spread


def columns_of(
    tenancies: Sequence[Tenancy], phases: Collection[Phase] = (Phase.PLACED,)
) -> Columns:
    """Return the rows of applications that have or need hosts, ascending by their VMs' ids.

    VMs that are being saved to disk are left out: as for EDF, their cores and memory are free at
    once, and only their application must wait.
    """
    there = tuple(tenancy for tenancy in tenancies if tenancy.phase in phases)
    size = np.array([tenancy.application.tasks for tenancy in there], dtype=np.int64)
    starts = np.zeros(len(there) + 1, dtype=np.int64)
    np.cumsum(size, out=starts[1:])
    return Columns(there, starts, size)


def snapshot_of(
    cloud: SimulatedCloud, hosts: Hosts, columns: Columns, now_s: float, period: int
) -> Snapshot:
    """Return the snapshot that the daemon would observe now."""
    there, count = columns.tenancies, int(columns.starts[-1])
    ids = np.repeat([tenancy.first_vm for tenancy in there], columns.size) + (
        np.arange(count) - np.repeat(columns.starts[:-1], columns.size)
    )
    host = (
        np.concatenate([tenancy.host for tenancy in there])
        if there
        else np.zeros(0, dtype=np.int64)
    )
    until = np.concatenate([tenancy.busy_until_s for tenancy in there]) if there else np.zeros(0)
    moved_at_s = np.concatenate([tenancy.moved_at_s for tenancy in there]) if there else np.zeros(0)
    state = np.where(host == NO_HOST, _PENDING, _RUNNING)
    state[until > now_s] = _BUSY
    memory = columns.spread([tenancy.application.memory_mib for tenancy in there])
    bid = columns.spread([tenancy.bid for tenancy in there])
    core = np.full(count, CORE)
    application = np.repeat(
        np.array([tenancy.row for tenancy in there], dtype=np.int64), columns.size
    )
    vms = Vms(
        id=ids.astype(np.int64),
        name=("",) * count,
        state=state,
        host=host,
        market=np.zeros(count, dtype=np.int64),
        bid=np.stack([bid * CORE, cloud.reserve_memory * memory], axis=1),
        floor=np.stack([np.zeros(count), memory], axis=1),
        cap=np.stack([core, memory], axis=1),
        held=np.zeros((count, len(RESOURCES))),
        application=application,
        owner=application,
        vcpus=np.ones(count, dtype=np.int64),
        moved_at_s=moved_at_s,
        movable=np.ones(count, dtype=bool),
        requirement=np.full(count, NO_ROW),
        role=np.full(count, NO_ROW),
        dirty_mib_s=np.full(count, np.nan),
        kind=np.ones(count, dtype=np.int64),
    )
    return Snapshot(now_s, period, RESOURCES, Markets(("simulated",)), hosts, vms)


def act(cloud: SimulatedCloud, columns: Columns, decision: Decision, now_s: float) -> int:
    """Start the decision's steps, and return the number of migrations."""
    owner = _owners(columns)
    for step in decision.plan.of(Deploy):
        tenancy, task = owner[step.vm]
        tenancy.deployed(task, step.host, now_s + tenancy.startup_s(cloud))
    migrations = decision.plan.of(Migrate)
    for move in migrations:
        tenancy, task = owner[move.vm]
        tenancy.host[task] = move.host
        tenancy.moved_at_s[task] = now_s
        tenancy.busy_until_s[task] = now_s + cloud.costs.migrate_s(tenancy.application.memory_mib)
    return len(migrations)


class _Owners:
    """The application and task of each VM id."""

    def __init__(self, columns: Columns) -> None:
        self._there = columns.tenancies
        self._first = np.array([tenancy.first_vm for tenancy in columns.tenancies], dtype=np.int64)

    def __getitem__(self, vm: int) -> tuple[Tenancy, int]:
        tenancy = self._there[int(np.searchsorted(self._first, vm, side="right")) - 1]
        return tenancy, vm - tenancy.first_vm


def _owners(columns: Columns) -> _Owners:
    return _Owners(columns)


def set_speeds(cloud: SimulatedCloud, columns: Columns, allocations: Floats, now_s: float) -> None:
    """Set each application's speed from its allocations: its slowest task counts."""
    if not columns.tenancies:
        return
    memory = columns.spread([tenancy.application.memory_mib for tenancy in columns.tenancies])
    until = np.concatenate([tenancy.busy_until_s for tenancy in columns.tenancies])
    part = np.minimum(allocations[:, 1] / memory, 1.0)
    thrash = np.clip(1.0 - cloud.costs.thrashing * (1.0 - part), 0.0, 1.0)
    speed = allocations[:, 0] / CORE * thrash
    starting = columns.spread([tenancy.starting_until_s for tenancy in columns.tenancies])
    migrating = (until > now_s) & (starting <= now_s)
    speed = np.where(migrating, speed * cloud.costs.migrating_speed, speed)
    slowest = np.minimum.reduceat(speed, columns.starts[:-1])
    for tenancy, value in zip(columns.tenancies, slowest.tolist(), strict=True):
        tenancy.speed = value if tenancy.starting_until_s < np.inf else 0.0
