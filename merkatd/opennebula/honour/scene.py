"""Everything that VMs are judged against, as columns that all of them share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.opennebula.honour.numa import Rooms
from merkatd.opennebula.honour.rights import (
    DATASTORE,
    HOST,
    MANAGE,
    NETWORK,
    USE,
    Rights,
    Thing,
)
from merkatd.opennebula.requirements import FactTable
from merkatd.opennebula.wanted import (
    Datastore,
    Estate,
    Facts,
    Member,
    Network,
    Stay,
    User,
    Wants,
)

SYSTEM = 1
"""The kind of a datastore that VMs run on."""


class AskingVm(Protocol):
    """What is used of a VM."""

    @property
    def id(self) -> int:
        """OpenNebula's id."""

    @property
    def owner(self) -> int:
        """Its user's id."""

    @property
    def group(self) -> int:
        """Its group's id."""

    @property
    def wants(self) -> Wants:
        """What it says."""

    @property
    def member(self) -> Member | None:
        """Its role in a VM group."""

    @property
    def stay(self) -> Stay | None:
        """Where its disks are already."""


class OfferingHost(Protocol):
    """What is used of a host."""

    @property
    def id(self) -> int:
        """OpenNebula's id."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def facts(self) -> Facts:
        """What it is asked."""


@dataclass(frozen=True, slots=True)
class Sort:
    """What VMs have in common that may be on the same hosts."""

    wants: Wants
    stay: Stay | None
    user: User | None
    """One of those who have the same rights; None: may use everything."""
    hosts_only: frozenset[int] | None = None
    """Ids of the only hosts that its role may be on,"""
    hosts_never: frozenset[int] = frozenset()
    """and of those that it may not."""
    beyond: str = ""
    """Why none of the owner's texts are compared, where that is so."""


Why = Callable[[Bools], str]
"""Given the hosts that were left before: why none of them is left."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """Where something holds."""

    hosts: Bools
    why: Why


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What requirements are asked of."""

    hosts: FactTable
    datastores: FactTable
    networks: FactTable
    rooms: Rooms
    """What was found of NUMA nodes."""


class Scene:
    """Hosts, datastores and networks."""

    def __init__(
        self, hosts: Sequence[OfferingHost], estate: Estate, before: Tables | None = None
    ) -> None:
        """`before` are the tables of the scene before this one."""
        self.estate = estate
        self.rights = Rights(estate)
        self.facts: Sequence[Facts] = [host.facts for host in hosts]
        self.host_id: Ints = np.array([host.id for host in hosts], dtype=np.int64)
        self.host_name: Sequence[str] = [host.name for host in hosts]
        self.cluster: Ints = np.array([facts.cluster for facts in self.facts], dtype=np.int64)
        self.host_table = FactTable(
            [facts.values for facts in self.facts],
            [facts.vms for facts in self.facts],
            None if before is None else before.hosts,
        )
        self.datastores: Sequence[Datastore] = [
            one for one in estate.datastores if one.kind == SYSTEM and one.usable
        ]
        self.images = {one.id: one for one in estate.datastores if one.kind != SYSTEM}
        self.datastore_table = FactTable(
            [_datastore_facts(one) for one in self.datastores],
            before=None if before is None else before.datastores,
        )
        self.networks: Sequence[Network] = estate.networks
        self.network_table = FactTable(
            [_network_facts(one) for one in self.networks],
            before=None if before is None else before.networks,
        )
        self.rooms = Rooms(
            [facts.numa for facts in self.facts], None if before is None else before.rooms
        )
        self.tables = Tables(self.host_table, self.datastore_table, self.network_table, self.rooms)
        self._reach: dict[frozenset[int], Bools] = {}
        self._may: dict[tuple[int, tuple[int, frozenset[int]]], Bools] = {}

    def __len__(self) -> int:
        return len(self.facts)

    def reach(self, clusters: frozenset[int]) -> Bools:
        """[hosts]: which are in one of these clusters."""
        if clusters not in self._reach:
            self._reach[clusters] = np.isin(self.cluster, sorted(clusters))
        return self._reach[clusters]

    def may(self, user: User | None, kind: int) -> Bools:
        """[rows of that kind]: which of them the user may use."""
        things = {HOST: self._hosts, DATASTORE: self._stores, NETWORK: self._nets}[kind]
        if user is None:
            return np.ones(len(things()), dtype=bool)
        key = kind, self.rights.likeness(user)
        if key not in self._may:
            right = MANAGE if kind == HOST else USE
            self._may[key] = self.rights.may(user, kind, right, things())
        return self._may[key]

    def _hosts(self) -> Sequence[Thing]:
        return [
            Thing(int(host), frozenset({facts.cluster}))
            for host, facts in zip(self.host_id, self.facts, strict=True)
        ]

    def _stores(self) -> Sequence[Thing]:
        return [_owned(one) for one in self.datastores]

    def _nets(self) -> Sequence[Thing]:
        return [_owned(one) for one in self.networks]


def _owned(one: Datastore | Network) -> Thing:
    return Thing(one.id, one.clusters, one.owner, one.group, one.permissions)


def _datastore_facts(one: Datastore) -> dict[str, Sequence[str]]:
    """What its requirements can always be asked of, and what it says."""
    return {
        **_common_facts(one),
        "TYPE": [str(one.kind)],
        "FREE_MB": [f"{one.free_mib:.0f}"],
        "TOTAL_MB": [f"{one.total_mib:.0f}"],
        **one.values,
    }


def _network_facts(one: Network) -> dict[str, Sequence[str]]:
    return {**_common_facts(one), **one.values}


def _common_facts(one: Datastore | Network) -> dict[str, Sequence[str]]:
    return {
        "ID": [str(one.id)],
        "NAME": [one.name],
        "UID": [str(one.owner)],
        "GID": [str(one.group)],
        "CLUSTERS/ID": [str(cluster) for cluster in sorted(one.clusters)],
    }
