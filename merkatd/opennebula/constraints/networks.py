"""Networks for automatic NICs: leases, rights, requirements and clusters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.opennebula.constraints.access_rules import NETWORK
from merkatd.opennebula.constraints.candidates import Candidates, Constraint, VmClass
from merkatd.opennebula.constraints.host_requirements import listed, requirement_constraint
from merkatd.opennebula.pools.constraint_facts import NicWant
from merkatd.opennebula.requirements import OF_ONED, OF_USERS, ranked

Chosen = tuple[tuple[int, int], ...]
"""Pairs of NIC id and network id, one for each automatic NIC."""


_Kind = tuple[str, str, str]
"""A kind of NIC: oned's requirements, the owner's requirements, and the rank of networks."""
_MANY = 2**62
"""The most free leases that are counted; IPv6 networks have more."""
_NIC = "{nic}"
"""The placeholder for the NIC's id in a reason."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassNetworks:
    """The networks of the VMs of a class."""

    constraint: Constraint
    by_cluster: Mapping[int, Chosen]


@dataclass(frozen=True, slots=True, eq=False)
class UsableNetworks:
    """The networks that NICs of a kind may use."""

    rows: Ints
    """Rows of networks, best first."""
    why: str
    """The reason why there is no such network."""
    here: Mapping[int, list[int]]
    """Rows of networks by cluster, best first."""


class Networks:
    """The choice of networks in a period, computed once for equal NICs and VMs.

    A tenant may have a thousand pending VMs with hundreds of NICs each, most of them equal.
    """

    def __init__(self, scene: Candidates) -> None:
        self._scene = scene
        self._free: Ints = np.array(
            [min(network.free_leases, _MANY) for network in scene.networks], dtype=np.int64
        )
        clusters = np.unique(scene.cluster).tolist()
        self._of_cluster: dict[int, Bools] = {
            cluster: np.array(
                [cluster in network.clusters for network in scene.networks], dtype=bool
            )
            for cluster in clusters
        }
        self._most = max((int(rows.sum()) for rows in self._of_cluster.values()), default=0)
        self._usable: dict[object, UsableNetworks] = {}
        self._order: dict[str, Ints] = {}
        self._connected: dict[object, ClassNetworks] = {}

    def connected(self, sort: VmClass) -> ClassNetworks | None:
        """Choose a different network for each automatic NIC, in each cluster with enough of them.

        Return None if the VM has no automatic NICs, or is running already.
        """
        wanted = sort.wants.nics
        if not wanted or (sort.stay is not None and sort.stay.running):
            return None
        who = None if sort.user is None else self._scene.rights.likeness(sort.user)
        key = who, wanted
        if key not in self._connected:
            self._connected[key] = self._connect(sort, who)
        return self._connected[key]

    def _connect(self, sort: VmClass, who: object) -> ClassNetworks:
        wanted, networks = sort.wants.nics, self._scene.networks
        if networks and len(wanted) > self._most:
            why = (
                f"each of {len(wanted)} automatic NICs needs a network of its own; no cluster has"
                f" more than {self._most} networks"
            )
            return ClassNetworks(Constraint(self._scene.reach(frozenset()), lambda _left: why), {})
        kinds = [(nic.automatic, nic.requirements, nic.rank) for nic in wanted]
        usable = {kind: self._kind(sort, who, nic) for kind, nic in zip(kinds, wanted, strict=True)}
        by_cluster: dict[int, Chosen] = {}
        for cluster in self._of_cluster:
            chosen = _choose(cluster, kinds, usable)
            if chosen is not None:
                pairs = zip(wanted, chosen, strict=True)
                by_cluster[cluster] = tuple((nic.nic, networks[row].id) for nic, row in pairs)
        none = (
            f"NIC {nic.nic}: {usable[kind].why.replace(_NIC, str(nic.nic))}"
            for kind, nic in zip(kinds, wanted, strict=True)
            if not len(usable[kind].rows)
        )
        hosts = self._scene.reach(frozenset(by_cluster))
        because = _why(self._scene, len(wanted), [*usable.values()], next(none, ""))
        return ClassNetworks(Constraint(hosts, because), by_cluster)

    def _kind(self, sort: VmClass, who: object, nic: NicWant) -> UsableNetworks:
        key = who, nic.automatic, nic.requirements, nic.rank
        if key not in self._usable:
            left, why = self._left(sort, nic)
            order = self._in_order(nic.rank)
            rows = order[left[order]]
            here = {cluster: rows[of[rows]].tolist() for cluster, of in self._of_cluster.items()}
            self._usable[key] = UsableNetworks(rows, why, here)
        return self._usable[key]

    def _in_order(self, rank: str) -> Ints:
        """Return the rows of all networks, best first."""
        if rank not in self._order:
            worth = ranked(rank, self._scene.network_table).worth
            # The last key is the primary one; equal networks keep their order.
            self._order[rank] = np.lexsort((-self._free, -worth))
        return self._order[rank]

    def _left(self, sort: VmClass, nic: NicWant) -> tuple[Bools, str]:
        """Return which networks the NIC may use, and the reason if there is none."""
        scene = self._scene
        filters = [
            (scene.may(sort.user, NETWORK), _forbidden(scene)),
            (self._free > 0, _no_lease(scene)),
        ]
        for name, text, limits in (
            ("AUTOMATIC_NIC_REQUIREMENTS", nic.automatic, OF_ONED),
            (f"SCHED_REQUIREMENTS of NIC {_NIC}", nic.requirements, OF_USERS),
        ):
            if text:
                asked = requirement_constraint(name, text, scene.network_table, "network", limits)
                filters.append((asked.hosts, asked.why))
        left = np.ones(len(scene.networks), dtype=bool)
        reason = "the cloud has no network"
        for rows, why in filters:
            if not left.any():
                break
            left, before = left & rows, left
            if not left.any():
                reason = why(before)
        return left, reason


def _choose(
    cluster: int, kinds: Sequence[_Kind], usable: Mapping[_Kind, UsableNetworks]
) -> list[int] | None:
    """Return for each NIC the best network of the cluster that no NIC before it has."""
    # A network that NICs of a kind skipped is taken, and stays taken: later ones need not check it.
    left = {kind: iter(nets.here[cluster]) for kind, nets in usable.items()}
    taken: set[int] = set()
    chosen: list[int] = []
    for kind in kinds:
        row = next((row for row in left[kind] if row not in taken), None)
        if row is None:
            return None
        taken.add(row)
        chosen.append(row)
    return chosen


def _why(
    scene: Candidates, nics: int, usable: list[UsableNetworks], reason: str
) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        if reason:
            return reason
        rows = np.zeros(len(scene.networks), dtype=bool)
        for nets in usable:
            rows[nets.rows] = True
        names = sorted({scene.networks[row].name for row in np.flatnonzero(rows).tolist()})
        return (
            f"each of {nics} automatic NICs needs a network of its own in the cluster of"
            f" one of {int(np.count_nonzero(left))} hosts; available: {listed(names)}"
        )

    return why


def _forbidden(scene: Candidates) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        names = [scene.networks[row].name for row in np.flatnonzero(left).tolist()]
        return f"user {{user}} may not use network {listed(names)} (needs USE)"

    return why


def _no_lease(scene: Candidates) -> Callable[[Bools], str]:
    def why(left: Bools) -> str:
        names = [scene.networks[row].name for row in np.flatnonzero(left).tolist()]
        return f"network {listed(names)} has no free lease"

    return why
