"""Clouds for the conformance of strategies: random ones, and the ones at the edges."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from merkatd.cluster import HostState, Snapshot, UsageHistory, VmState
from merkatd.cluster.columns import NO_HOST, column_types
from tests.clouds import cloud, crowded, hosts_table, tangled, vms_table

HOSTS = 6


def _with_hosts(snapshot: Snapshot, **columns: Any) -> Snapshot:
    return replace(snapshot, hosts=replace(snapshot.hosts, **columns))


def _with_vms(snapshot: Snapshot, **columns: Any) -> Snapshot:
    return replace(snapshot, vms=replace(snapshot.vms, **columns))


def without_hosts() -> Snapshot:
    """Return a cloud of waiting VMs without any host."""
    return cloud(
        hosts_table(np.zeros((0, 2))),
        vms_table([-1, -1], np.ones((2, 2)), np.full((2, 2), 50.0)),
    )


def without_vms() -> Snapshot:
    """Return hosts without a VM."""
    none = np.zeros((0, 2))
    return cloud(hosts_table(np.full((3, 2), 400.0)), vms_table([], none, none))


def all_pending() -> Snapshot:
    """Return a cloud in which every VM waits."""
    snapshot = crowded(HOSTS, 1, 4)
    count = len(snapshot.vms)
    return _with_vms(
        snapshot, host=np.full(count, NO_HOST), state=np.full(count, int(VmState.PENDING))
    )


def all_drained() -> Snapshot:
    """Return a cloud in which no host takes VMs and all are to be emptied."""
    return _with_hosts(crowded(HOSTS, 1, 4), state=np.full(HOSTS, int(HostState.DRAINED)))


def one_down() -> Snapshot:
    """Return a cloud in which a host with VMs is unreachable."""
    state = np.full(HOSTS, int(HostState.ON))
    state[0] = int(HostState.OFF)
    return _with_hosts(crowded(HOSTS, 1, 4), state=state)


def optional_columns(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return the table and the name of each column of numbers that may be unknown."""
    return [
        (name, column)
        for name, table in snapshot.tables()
        for column, form in column_types(type(table)).items()
        if form.what in {"number", "vector"} and form.default is None and not form.needed
    ]


def without_column(snapshot: Snapshot, name: str, column: str) -> Snapshot:
    """Return the cloud in which a column's numbers are all unknown."""
    table = getattr(snapshot, name)
    unknown = np.full_like(getattr(table, column), np.nan)
    parts: dict[str, Any] = {name: replace(table, **{column: unknown})}
    return replace(snapshot, **parts)


def unknown_columns() -> Snapshot:
    """Return a cloud whose optional numbers are all unknown."""
    snapshot = crowded(HOSTS, 1, 4)
    for name, column in optional_columns(snapshot):
        if getattr(getattr(snapshot, name), column).size:
            snapshot = without_column(snapshot, name, column)
    return snapshot


def known_columns() -> Snapshot:
    """Return a cloud with failure domains, topology, and a history."""
    snapshot = crowded(HOSTS, 1, 4)
    at = np.arange(HOSTS)
    domains = {
        "network": np.stack([at // 3, (at // 3 + 1) % 2], axis=1),
        "power": np.stack([at % 2, np.full(HOSTS, -1)], axis=1),
    }
    rng = np.random.default_rng(1)
    history = UsageHistory(
        at_s=np.arange(10.0) * 60.0,
        vms=rng.uniform(0, 100, (10, len(snapshot.vms), 2)),
        hosts=rng.uniform(0, 3200, (10, HOSTS, 2)),
    )
    topology = np.stack([np.zeros_like(at), at // 3], axis=1)
    snapshot = _with_hosts(
        snapshot,
        domains=domains,
        topology=topology,
        link_mbps=np.full(HOSTS, 1e4),
        can_sleep=np.ones(HOSTS, dtype=bool),
    )
    return replace(snapshot, history=history)


EDGES: Mapping[str, Callable[[], Snapshot]] = {
    make.__name__: make
    for make in (
        without_hosts,
        without_vms,
        all_pending,
        all_drained,
        one_down,
        unknown_columns,
        known_columns,
    )
}


def market_of(seed: int) -> Snapshot:
    """Return a random cloud with all constraints; the strategy decides market 0 of two."""
    return tangled(seed)


def bits(value: Any) -> Any:
    """Return a value that is equal only for equal bits."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return {key: bits(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {each.name: bits(getattr(value, each.name)) for each in fields(value)}
    return repr(value) if isinstance(value, float) else value
