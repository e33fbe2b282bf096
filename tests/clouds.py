"""Clouds for tests and benchmarks, made from a seed."""

from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.cluster import (
    Decision,
    Floats,
    Hosts,
    HostState,
    Ints,
    Markets,
    Requirements,
    RolePolicy,
    Roles,
    Snapshot,
    VmKind,
    Vms,
    VmState,
)
from merkatd.cluster.vms import RolePairs
from merkatd.market.explanation import hosts_after


def hosts_table(capacity: Floats, **columns: Any) -> Hosts:
    """Return hosts 0, 1, ... of market 0, all on, with the columns given."""
    count = len(capacity)
    return Hosts(
        **{
            "id": np.arange(count),
            "name": tuple(f"host{row}" for row in range(count)),
            "state": np.full(count, HostState.ON, dtype=np.int64),
            "market": np.zeros(count, dtype=np.int64),
            "capacity": np.asarray(capacity, dtype=float),
            "used": np.full(np.shape(capacity), np.nan),
            "domains": {},
            "topology": np.zeros((count, 0), dtype=np.int64),
            "link_mbps": np.full(count, np.nan),
            **columns,
        }
    )


def vms_table(host: npt.ArrayLike, bid: npt.ArrayLike, cap: npt.ArrayLike, **columns: Any) -> Vms:
    """Return VMs 0, 1, ... of market 0, running, or pending if their host is -1."""
    host_row = np.asarray(host, dtype=np.int64)
    count = len(host_row)
    state = np.where(host_row < 0, int(VmState.PENDING), int(VmState.RUNNING))
    return Vms(
        **{
            "id": np.arange(count),
            "name": tuple(f"vm{row}" for row in range(count)),
            "state": state,
            "host": host_row,
            "market": np.zeros(count, dtype=np.int64),
            "bid": np.asarray(bid, dtype=float),
            "floor": np.zeros(np.shape(bid)),
            "cap": np.asarray(cap, dtype=float),
            "held": np.full(np.shape(bid), np.nan),
            "application": np.full(count, -1),
            "owner": np.full(count, -1),
            "vcpus": np.ones(count, dtype=np.int64),
            "moved_at_s": np.full(count, np.nan),
            "movable": np.ones(count, dtype=bool),
            "requirement": np.full(count, -1),
            "role": np.full(count, -1),
            "dirty_mib_s": np.full(count, np.nan),
            "kind": np.full(count, VmKind.SERVICE, dtype=np.int64),
            **columns,
        }
    )


def cloud(hosts: Hosts, vms: Vms, **parts: Any) -> Snapshot:
    """Return a snapshot of CPU and memory, or of as many resources as the capacity has columns."""
    names = ("cpu", "memory", "network", "disk")[: hosts.capacity.shape[1]]
    return Snapshot(
        **{
            "now_s": 0.0,
            "period": 1,
            "resources": names,
            "markets": Markets(name=("default",)),
            "hosts": hosts,
            "vms": vms,
            **parts,
        }
    )


def crowded(hosts: int, seed: int, per_host: int = 10) -> Snapshot:
    """Return a cloud with four fifths of the VMs on half of the hosts.

    Bids are log-normal; caps are 1 to 8 cores.
    """
    rng = np.random.default_rng(seed)
    vms = hosts * per_host
    half = hosts // 2
    on_crowded = np.arange(vms) < (vms * 4) // 5
    rng.shuffle(on_crowded)
    host = np.where(on_crowded, rng.integers(0, half, vms), rng.integers(half, hosts, vms))
    cap = np.stack([rng.uniform(100, 800, vms), rng.uniform(4096, 49152, vms)], axis=1)
    floor = np.stack([np.zeros(vms), np.full(vms, 1024.0)], axis=1)
    bid = rng.lognormal(0.0, 1.0, (vms, 2))
    return cloud(
        hosts_table(np.tile([3200.0, 262144.0], (hosts, 1))),
        vms_table(host, bid, cap, floor=floor),
    )


def flavoured(hosts: int, seed: int) -> Snapshot:
    """Return the crowded cloud with common VM sizes: 1, 2, 4 or 8 cores, 3.2 GiB a core."""
    rng = np.random.default_rng(seed)
    vms = hosts * 10
    half = hosts // 2
    many = np.arange(vms) < (vms * 4) // 5
    host = np.where(many, rng.integers(0, half, vms), rng.integers(half, hosts, vms))
    cpu = rng.choice([100.0, 200.0, 400.0, 800.0], vms)
    bid = rng.lognormal(0.0, 1.0, vms)
    return cloud(
        hosts_table(np.tile([3200.0, 262144.0], (hosts, 1))),
        vms_table(
            host,
            np.stack([bid, bid], axis=1),
            np.stack([cpu, cpu * 32.768], axis=1),
            floor=np.stack([np.zeros(vms), np.full(vms, 1024.0)], axis=1),
        ),
    )


def tangled(seed: int, hosts: int | None = None, vms: int | None = None) -> Snapshot:
    """Return a random cloud with floors, roles, requirements, VM states and two markets."""
    rng = np.random.default_rng(seed)
    hosts = int(rng.integers(1, 8)) if hosts is None else hosts
    vms = int(rng.integers(0, 40)) if vms is None else vms
    capacity = np.stack(
        [rng.choice([0.0, 100.0, 200.0, 400.0], hosts), rng.uniform(100, 1000, hosts)], axis=1
    )
    bid = (
        10 ** rng.uniform(-6, 6, (vms, 2)) if rng.random() < 0.3 else rng.lognormal(0, 1, (vms, 2))
    )
    bid[rng.random((vms, 2)) < 0.1] = 0.0
    cap = np.stack([rng.uniform(10, 200, vms), rng.uniform(10, 500, vms)], axis=1)
    host = rng.integers(-1 if rng.random() < 0.7 else 0, hosts, vms)
    odd = rng.choice(
        [VmState.RUNNING, VmState.BUSY, VmState.SUSPENDED, VmState.POWERED_OFF, VmState.ABSENT],
        vms,
        p=[0.8, 0.05, 0.05, 0.05, 0.05],
    )
    return cloud(
        hosts_table(
            capacity,
            state=rng.choice(
                [HostState.ON, HostState.DRAINED, HostState.OFF], hosts, p=[0.8, 0.1, 0.1]
            ),
            market=np.where(rng.random(hosts) < 0.8, 0, 1),
        ),
        vms_table(
            host,
            bid,
            cap,
            floor=cap * rng.choice([0.0, 0.0, 0.1, 0.3], (vms, 2)),
            state=np.where(host < 0, int(VmState.PENDING), odd),
            market=rng.choice([-1, 0, 1], vms, p=[0.1, 0.7, 0.2]),
            movable=rng.random(vms) < 0.9,
            requirement=rng.integers(-1, 2, vms),
            role=np.where(rng.random(vms) < 0.4, rng.integers(0, 4, vms), -1),
        ),
        markets=Markets(name=("default", "other")),
        requirements=Requirements(name=("ssd", "fast"), allowed=rng.random((2, hosts)) < 0.7),
        roles=Roles(
            name=("web", "db", "cache", "log"),
            policy=np.array(
                [RolePolicy.NONE, RolePolicy.TOGETHER, RolePolicy.APART, RolePolicy.NONE]
            ),
        ),
        role_pairs=RolePairs(
            first=np.array([0]), second=np.array([3]), policy=np.array([RolePolicy.APART])
        ),
    )


def placed(snapshot: Snapshot, decision: Decision) -> Ints:
    """Return the host row of each VM after the plan ([vms])."""
    return hosts_after(snapshot, decision.plan)
