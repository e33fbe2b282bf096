"""Networks for NICs that let the scheduler pick one: leases, rights, requirements, clusters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools
from merkatd.opennebula.honour.asked import listed, required
from merkatd.opennebula.honour.rights import NETWORK
from merkatd.opennebula.honour.scene import Constraint, Scene, Sort
from merkatd.opennebula.requirements import OF_ONED, OF_USERS, ranked
from merkatd.opennebula.wanted import NicWant

Chosen = tuple[tuple[int, int], ...]
"""Of each automatic NIC: its id and its network's."""


@dataclass(frozen=True, slots=True, eq=False)
class Connected:
    """The networks of VMs of one sort."""

    constraint: Constraint
    by_cluster: Mapping[int, Chosen]


def connected(scene: Scene, sort: Sort) -> Connected | None:
    """A different network for each automatic NIC, in each cluster where that can be."""
    wanted = sort.wants.nics
    if not wanted or (sort.stay is not None and sort.stay.running):
        return None
    usable = [_usable(scene, sort, nic) for nic in wanted]
    by_cluster: dict[int, Chosen] = {}
    for cluster in np.unique(scene.cluster).tolist():
        chosen = _choose(scene, cluster, [rows for rows, _ in usable])
        if chosen is not None:
            pairs = zip(wanted, chosen, strict=True)
            by_cluster[cluster] = tuple((nic.nic, scene.networks[row].id) for nic, row in pairs)
    why = next((reason for rows, reason in usable if not rows), "")
    hosts = scene.reach(frozenset(by_cluster))
    return Connected(Constraint(hosts, _why(scene, usable, why)), by_cluster)


def _usable(scene: Scene, sort: Sort, nic: NicWant) -> tuple[list[int], str]:
    """The rows of networks that it may have, best first; and why there is none."""
    free = np.array([one.free_leases > 0 for one in scene.networks], dtype=bool)
    filters = [
        (scene.may(sort.user, NETWORK), _forbidden(scene)),
        (free, _no_lease(scene)),
    ]
    for name, text, limits in (
        ("AUTOMATIC_NIC_REQUIREMENTS", nic.automatic, OF_ONED),
        (f"SCHED_REQUIREMENTS of NIC {nic.nic}", nic.requirements, OF_USERS),
    ):
        if text:
            asked = required(name, text, scene.network_table, "network", limits)
            filters.append((asked.hosts, asked.why))
    left = np.ones(len(scene.networks), dtype=bool)
    reason = f"NIC {nic.nic}: there is no network"
    for rows, why in filters:
        if not left.any():
            break
        left, before = left & rows, left
        if not left.any():
            reason = f"NIC {nic.nic}: {why(before)}"
    rank = ranked(nic.rank, scene.network_table).worth
    rows_left = np.flatnonzero(left).tolist()
    best = sorted(rows_left, key=lambda row: (-rank[row], -scene.networks[row].free_leases, row))
    return best, reason


def _choose(scene: Scene, cluster: int, usable: list[list[int]]) -> list[int] | None:
    """For each NIC in turn the best network of the cluster that no other NIC has."""
    chosen: list[int] = []
    for rows in usable:
        here = (row for row in rows if cluster in scene.networks[row].clusters)
        row = next((row for row in here if row not in chosen), None)
        if row is None:
            return None
        chosen.append(row)
    return chosen


def _why(scene: Scene, usable: list[tuple[list[int], str]], reason: str) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        if reason:
            return reason
        names = sorted({scene.networks[row].name for rows, _ in usable for row in rows})
        return (
            f"each of {len(usable)} automatic NICs needs a network of its own in the cluster of"
            f" one of {int(np.count_nonzero(left))} hosts; there is {listed(names)}"
        )

    return why


def _forbidden(scene: Scene) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        names = [scene.networks[row].name for row in np.flatnonzero(left).tolist()]
        return f"user {{user}} may not use network {listed(names)} (needs USE)"

    return why


def _no_lease(scene: Scene) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        names = [scene.networks[row].name for row in np.flatnonzero(left).tolist()]
        return f"network {listed(names)} has no free lease"

    return why
