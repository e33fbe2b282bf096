"""Clouds for tests and benchmarks, made from a seed."""

from typing import Any

import numpy as np

from merkatd.cluster import (
    Floats,
    Hosts,
    HostState,
    Ints,
    Markets,
    Snapshot,
    VmKind,
    Vms,
    VmState,
)


def hosts_table(capacity: Floats, **columns: Any) -> Hosts:
    """Hosts 0, 1, ... of market 0, all on, but for the columns given."""
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


def vms_table(host: Ints, bid: Floats, cap: Floats, **columns: Any) -> Vms:
    """VMs 0, 1, ... of market 0, running, or pending where their host is -1."""
    host = np.asarray(host, dtype=np.int64)
    count = len(host)
    state = np.where(host < 0, int(VmState.PENDING), int(VmState.RUNNING))
    return Vms(
        **{
            "id": np.arange(count),
            "name": tuple(f"vm{row}" for row in range(count)),
            "state": state,
            "host": host,
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
    """A snapshot of CPU and memory, or of as many resources as there are columns."""
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
    """Four fifths of the VMs on half of the hosts, bids log-normal, caps of 1 to 8 cores."""
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
