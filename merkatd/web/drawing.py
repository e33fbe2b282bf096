"""What the bars of hosts are drawn from; pure."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from merkatd.api.questions.lists import HOST_STATES
from merkatd.api.questions.present import Present
from merkatd.cluster import Floats, HostState, Ints
from merkatd.market.view import NOWHERE


def hosts_of(now: Present, drained: AbstractSet[int], owner: int | None) -> list[dict[str, Any]]:
    """Every host with its VMs; for one owner those hosts and VMs alone that are its business.

    A VM is [id, name, owner, part of the host's CPU, part of its memory], the largest first.
    """
    table = now.snapshot.hosts
    members, gets = _members(now, owner), now.given()
    shown = range(len(table)) if owner is None else sorted(members)
    return [
        {
            "id": int(table.id[row]),
            "name": table.name[row],
            "state": "drain"
            if int(table.id[row]) in drained
            else HOST_STATES[HostState(int(table.state[row]))],
            "vms": _vms(now, gets, row, members.get(row, [])),
        }
        for row in shown
    ]


def _members(now: Present, owner: int | None) -> dict[int, list[int]]:
    """The rows of VMs by the rows of their hosts."""
    there = now.host != NOWHERE
    if owner is not None:
        there &= now.snapshot.vms.owner == owner
    found: dict[int, list[int]] = {}
    for row in np.flatnonzero(there).tolist():
        found.setdefault(int(now.host[row]), []).append(row)
    return found


def _vms(now: Present, gets: Floats, host: int, rows: Sequence[int]) -> list[list[Any]]:
    vms = now.snapshot.vms
    whole = np.maximum(now.snapshot.hosts.capacity[host], 1e-9)
    parts = gets[list(rows)] / whole
    order = sorted(
        range(len(rows)), key=lambda at: (int(vms.owner[rows[at]]), int(vms.id[rows[at]]))
    )
    return [
        [
            int(vms.id[rows[at]]),
            vms.name[rows[at]],
            int(vms.owner[rows[at]]),
            round(float(parts[at, 0]), 4),
            round(float(parts[at, 1]), 4),
        ]
        for at in order
    ]


def own_rows(now: Present, owner: int) -> Ints:
    """The rows of a tenant's VMs."""
    return np.flatnonzero(now.snapshot.vms.owner == owner)
