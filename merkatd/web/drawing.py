"""What the bars of hosts are drawn from; pure."""

from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from merkatd.api.questions.lists import HOST_STATES
from merkatd.api.questions.present import Present
from merkatd.cluster import HostState, Ints
from merkatd.cluster.columns import NOWHERE


def hosts_of(
    now: Present, drained: AbstractSet[int], owner: int | None, most: int
) -> list[dict[str, Any]]:
    """So many hosts with their VMs; for one owner those alone that are its business.

    A VM is [id, name, owner, part of the host's CPU, part of its memory], those of an owner
    side by side.
    """
    table, vms = now.snapshot.hosts, now.snapshot.vms
    rows = np.flatnonzero(now.host != NOWHERE) if owner is None else own_rows(now, owner)
    rows = rows[now.host[rows] != NOWHERE]
    hosts = np.arange(len(table)) if owner is None else np.unique(now.host[rows])
    hosts = hosts[:most]
    rows = rows[np.isin(now.host[rows], hosts)]
    rows = rows[np.lexsort((vms.id[rows], vms.owner[rows], now.host[rows]))]
    ends = np.searchsorted(now.host[rows], hosts, side="right").tolist()
    drawn = _drawn(now, rows)
    return [
        {
            "id": int(table.id[host]),
            "name": table.name[host],
            "state": "drain"
            if int(table.id[host]) in drained
            else HOST_STATES[HostState(int(table.state[host]))],
            "vms": drawn[begin:end],
        }
        for host, begin, end in zip(hosts.tolist(), [0, *ends], ends, strict=False)
    ]


def _drawn(now: Present, rows: Ints) -> list[list[Any]]:
    """The VMs in these rows."""
    vms = now.snapshot.vms
    whole = np.maximum(now.snapshot.hosts.capacity[now.host[rows]], 1e-9)
    parts = np.round(now.given()[rows] / whole, 4)
    columns = (
        vms.id[rows].tolist(),
        [vms.name[row] for row in rows.tolist()],
        vms.owner[rows].tolist(),
        parts[:, now.snapshot.resources.index("cpu")].tolist(),
        parts[:, now.snapshot.resources.index("memory")].tolist(),
    )
    return [list(one) for one in zip(*columns, strict=True)]


def own_rows(now: Present, owner: int) -> Ints:
    """The rows of a tenant's VMs."""
    return np.flatnonzero(now.snapshot.vms.owner == owner)
