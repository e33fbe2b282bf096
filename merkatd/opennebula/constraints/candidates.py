"""What VMs are judged against, as columns; roles of VM groups."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from merkatd.cluster import Bools, Ints, RolePolicy
from merkatd.opennebula.constraints.access_rules import (
    DATASTORE,
    HOST,
    MANAGE,
    NETWORK,
    USE,
    Rights,
    Thing,
)
from merkatd.opennebula.constraints.hardware import Rooms
from merkatd.opennebula.pools.constraint_facts import (
    DatastoreFacts,
    DiskLocation,
    GroupRule,
    HostFacts,
    NetworkFacts,
    Role,
    RoleMember,
    SiteFacts,
    UserFacts,
    VmRequirements,
)
from merkatd.opennebula.requirements import FactTable

_POLICIES = {"AFFINED": RolePolicy.TOGETHER, "ANTI_AFFINED": RolePolicy.APART}


@dataclass(frozen=True, slots=True, eq=False)
class VmGroupRoles:
    """The roles of VM groups, in a row."""

    rows: Mapping[tuple[int, str], int]
    """By group and name of the role."""
    roles: Sequence[Role]
    names: tuple[str, ...]
    policy: Ints
    pairs: tuple[tuple[int, int, int], ...]

    def row(self, member: RoleMember | None) -> int:
        """The row of a VM's role; -1 where it has none, or one that is gone."""
        return -1 if member is None else self.rows.get((member.group, member.role), -1)


def groups_of(rules: Sequence[GroupRule], used: Collection[int]) -> VmGroupRoles:
    """Return the roles of the groups with these ids, and the pairs of roles that are bound.

    A group that no VM uses asks nothing of any host.
    """
    rules = [rule for rule in rules if rule.id in used]
    every = [(rule, role) for rule in rules for role in rule.roles]
    rows = {(rule.id, role.name): row for row, (rule, role) in enumerate(every)}
    policies = [_POLICIES.get(role.policy, RolePolicy.NONE) for _, role in every]
    return VmGroupRoles(
        rows=rows,
        roles=[role for _, role in every],
        names=_names(every),
        policy=np.array(policies, dtype=np.int64),
        pairs=tuple(pair for rule in rules for pair in _pairs(rule, rows)),
    )


def _names(every: Sequence[tuple[GroupRule, Role]]) -> tuple[str, ...]:
    """Two users may have groups of one name: then the id says which."""
    plain = [f"{rule.name}/{role.name}" for rule, role in every]
    count = Counter(plain)
    return tuple(
        name if count[name] == 1 else f"{rule.name} ({rule.id})/{role.name}"
        for name, (rule, role) in zip(plain, every, strict=True)
    )


def _pairs(rule: GroupRule, rows: Mapping[tuple[int, str], int]) -> Iterator[tuple[int, int, int]]:
    """Yield each pair of roles once, however many lines name it.

    A line is read into one bit for each role, so the time follows the length of the text.
    """
    place = {role.name: bit for bit, role in enumerate(rule.roles)}
    for lines, policy in (
        (rule.affined, RolePolicy.TOGETHER),
        (rule.anti_affined, RolePolicy.APART),
    ):
        beside = dict.fromkeys(place.values(), 0)
        for names in lines:
            found = {place[name] for name in names if name in place}
            mask = sum(1 << bit for bit in found)
            for bit in found:
                beside[bit] |= mask
        row = {bit: rows[rule.id, name] for name, bit in place.items()}
        for first, second in combinations(sorted(row), 2):
            if beside[first] >> second & 1:
                yield row[first], row[second], int(policy)


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
    def wants(self) -> VmRequirements:
        """What it says."""

    @property
    def member(self) -> RoleMember | None:
        """Its role in a VM group."""

    @property
    def stay(self) -> DiskLocation | None:
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
    def facts(self) -> HostFacts:
        """What it is asked."""


@dataclass(frozen=True, slots=True)
class VmClass:
    """What VMs have in common that may be on the same hosts."""

    wants: VmRequirements
    stay: DiskLocation | None
    user: UserFacts | None
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


class Candidates:
    """Hosts, datastores and networks."""

    def __init__(
        self, hosts: Sequence[OfferingHost], estate: SiteFacts, before: Tables | None = None
    ) -> None:
        """`before` are the tables of the scene before this one."""
        self.estate = estate
        self.rights = Rights(estate)
        self.facts: Sequence[HostFacts] = [host.facts for host in hosts]
        self.host_id: Ints = np.array([host.id for host in hosts], dtype=np.int64)
        self.host_name: Sequence[str] = [host.name for host in hosts]
        self.cluster: Ints = np.array([facts.cluster for facts in self.facts], dtype=np.int64)
        self.host_table = FactTable(
            [facts.values for facts in self.facts],
            [facts.vms for facts in self.facts],
            None if before is None else before.hosts,
        )
        self.datastores: Sequence[DatastoreFacts] = [
            one for one in estate.datastores if one.kind == SYSTEM and one.usable
        ]
        self.images = {one.id: one for one in estate.datastores if one.kind != SYSTEM}
        self.datastore_table = FactTable(
            [_datastore_facts(one) for one in self.datastores],
            before=None if before is None else before.datastores,
        )
        self.networks: Sequence[NetworkFacts] = estate.networks
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

    def may(self, user: UserFacts | None, kind: int) -> Bools:
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


def _owned(one: DatastoreFacts | NetworkFacts) -> Thing:
    return Thing(one.id, one.clusters, one.owner, one.group, one.permissions)


def _datastore_facts(one: DatastoreFacts) -> dict[str, Sequence[str]]:
    """What its requirements can always be asked of, and what it says."""
    return {
        **_common_facts(one),
        "TYPE": [str(one.kind)],
        "FREE_MB": [f"{one.free_mib:.0f}"],
        "TOTAL_MB": [f"{one.total_mib:.0f}"],
        **one.values,
    }


def _network_facts(one: NetworkFacts) -> dict[str, Sequence[str]]:
    return {**_common_facts(one), **one.values}


def _common_facts(one: DatastoreFacts | NetworkFacts) -> dict[str, Sequence[str]]:
    return {
        "ID": [str(one.id)],
        "NAME": [one.name],
        "UID": [str(one.owner)],
        "GID": [str(one.group)],
        "CLUSTERS/ID": [str(cluster) for cluster in sorted(one.clusters)],
    }
