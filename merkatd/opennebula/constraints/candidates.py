"""Candidates for VMs: hosts, datastores and networks as columns; roles of VM groups."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from merkatd.cluster import Bools, Ints, RolePolicy
from merkatd.cluster.columns import is_one_of
from merkatd.opennebula.constraints.access_rules import (
    DATASTORE,
    HOST,
    MANAGE,
    NETWORK,
    USE,
    ProtectedObject,
    Rights,
)
from merkatd.opennebula.constraints.hardware import NodeFit
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
    """The roles of all VM groups, as rows."""

    rows: Mapping[tuple[int, str], int]
    """Rows by group id and name of the role."""
    roles: Sequence[Role]
    names: tuple[str, ...]
    policy: Ints
    pairs: tuple[tuple[int, int, int], ...]
    """Pairs of bound roles: two rows and a `RolePolicy`."""

    def row(self, member: RoleMember | None) -> int:
        """Return the row of a VM's role; -1 if it has no role, or one that was removed."""
        return -1 if member is None else self.rows.get((member.group, member.role), -1)


def groups_of(rules: Sequence[GroupRule], used: Collection[int]) -> VmGroupRoles:
    """Return the roles of the groups with the ids `used`, and the pairs of bound roles.

    A group without VMs puts no constraint on hosts.
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
    """Return the roles' names; they include the group's id if the group's name is ambiguous."""
    plain = [f"{rule.name}/{role.name}" for rule, role in every]
    count = Counter(plain)
    return tuple(
        name if count[name] == 1 else f"{rule.name} ({rule.id})/{role.name}"
        for name, (rule, role) in zip(plain, every, strict=True)
    )


def _pairs(rule: GroupRule, rows: Mapping[tuple[int, str], int]) -> Iterator[tuple[int, int, int]]:
    """Yield each pair of bound roles once, however many lines name it.

    Each line becomes a mask with a bit for each role. So the time depends on the length of the
    lines, not on the number of pairs that they repeat.
    """
    place = {role.name: bit for bit, role in enumerate(rule.roles)}
    for lines, policy in (
        (rule.affined, RolePolicy.TOGETHER),
        (rule.anti_affined, RolePolicy.APART),
    ):
        beside = dict.fromkeys(place.values(), 0)
        for names in lines:
            bits = {place[name] for name in names if name in place}
            mask = sum(1 << bit for bit in bits)
            for bit in bits:
                beside[bit] |= mask
        row = {bit: rows[rule.id, name] for name, bit in place.items()}
        for first, second in combinations(sorted(row), 2):
            if beside[first] >> second & 1:
                yield row[first], row[second], int(policy)


SYSTEM = 1
"""OpenNebula's type number of system datastores."""


class AskingVm(Protocol):
    """The properties of a VM that constraints use."""

    @property
    def id(self) -> int:
        """OpenNebula's id of the VM."""

    @property
    def owner(self) -> int:
        """The id of the VM's user."""

    @property
    def group(self) -> int:
        """The id of the VM's user group."""

    @property
    def wants(self) -> VmRequirements:
        """The requirements of the VM."""

    @property
    def member(self) -> RoleMember | None:
        """The VM's role in a VM group."""

    @property
    def stay(self) -> DiskLocation | None:
        """The location of the VM's disks, None if it has none yet."""


class OfferingHost(Protocol):
    """The properties of a host that constraints use."""

    @property
    def id(self) -> int:
        """OpenNebula's id of the host."""

    @property
    def name(self) -> str:
        """The host's name."""

    @property
    def facts(self) -> HostFacts:
        """The facts with which requirements are compared."""


@dataclass(frozen=True, slots=True)
class VmClass:
    """The common properties of VMs that may run on the same hosts."""

    wants: VmRequirements
    stay: DiskLocation | None
    user: UserFacts | None
    """A user with the rights of the VMs' owners; None if the VMs may use everything."""
    hosts_only: frozenset[int] | None = None
    """Ids of the only hosts that the VMs' role allows; None if it allows all."""
    hosts_never: frozenset[int] = frozenset()
    """Ids of the hosts that the VMs' role forbids."""
    beyond: str = ""
    """The reason why the owner's texts are not evaluated; empty if they are."""


Why = Callable[[Bools], str]
"""A function from the hosts before a constraint to the reason why none is left after it."""


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """The hosts that fulfil a constraint."""

    hosts: Bools
    why: Why


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The facts with which requirements are compared, and cached results."""

    hosts: FactTable
    datastores: FactTable
    networks: FactTable
    rooms: NodeFit
    """Cached results for NUMA nodes."""


class Candidates:
    """The hosts, datastores and networks of a cloud."""

    def __init__(
        self, hosts: Sequence[OfferingHost], estate: SiteFacts, before: Tables | None = None
    ) -> None:
        """`before` are the tables of the previous period."""
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
            datastore
            for datastore in estate.datastores
            if datastore.kind == SYSTEM and datastore.usable
        ]
        self.images = {
            datastore.id: datastore for datastore in estate.datastores if datastore.kind != SYSTEM
        }
        self.datastore_table = FactTable(
            [_datastore_facts(datastore) for datastore in self.datastores],
            before=None if before is None else before.datastores,
        )
        self.networks: Sequence[NetworkFacts] = estate.networks
        self.network_table = FactTable(
            [_network_facts(network) for network in self.networks],
            before=None if before is None else before.networks,
        )
        self.rooms = NodeFit(
            [facts.numa for facts in self.facts], None if before is None else before.rooms
        )
        self.tables = Tables(self.host_table, self.datastore_table, self.network_table, self.rooms)
        self._reach: dict[frozenset[int], Bools] = {}
        self._may: dict[tuple[int, tuple[int, frozenset[int]]], Bools] = {}

    def __len__(self) -> int:
        return len(self.facts)

    def reach(self, clusters: frozenset[int]) -> Bools:
        """Return for each host whether it is in any of these clusters."""
        if clusters not in self._reach:
            self._reach[clusters] = is_one_of(self.cluster, clusters)
        return self._reach[clusters]

    def may(self, user: UserFacts | None, kind: int) -> Bools:
        """Return for each object of a kind whether the user may use it."""
        things = {HOST: self._hosts, DATASTORE: self._stores, NETWORK: self._nets}[kind]
        if user is None:
            return np.ones(len(things()), dtype=bool)
        key = kind, self.rights.likeness(user)
        if key not in self._may:
            right = MANAGE if kind == HOST else USE
            self._may[key] = self.rights.may(user, kind, right, things())
        return self._may[key]

    def _hosts(self) -> Sequence[ProtectedObject]:
        return [
            ProtectedObject(int(host), frozenset({facts.cluster}))
            for host, facts in zip(self.host_id, self.facts, strict=True)
        ]

    def _stores(self) -> Sequence[ProtectedObject]:
        return [_owned(datastore) for datastore in self.datastores]

    def _nets(self) -> Sequence[ProtectedObject]:
        return [_owned(network) for network in self.networks]


def _owned(resource: DatastoreFacts | NetworkFacts) -> ProtectedObject:
    return ProtectedObject(
        resource.id, resource.clusters, resource.owner, resource.group, resource.permissions
    )


def _datastore_facts(datastore: DatastoreFacts) -> dict[str, Sequence[str]]:
    """Return a datastore's facts for requirements; attributes of its template take precedence."""
    return {
        **_common_facts(datastore),
        "TYPE": [str(datastore.kind)],
        "FREE_MB": [f"{datastore.free_mib:.0f}"],
        "TOTAL_MB": [f"{datastore.total_mib:.0f}"],
        **datastore.values,
    }


def _network_facts(network: NetworkFacts) -> dict[str, Sequence[str]]:
    return {**_common_facts(network), **network.values}


def _common_facts(resource: DatastoreFacts | NetworkFacts) -> dict[str, Sequence[str]]:
    return {
        "ID": [str(resource.id)],
        "NAME": [resource.name],
        "UID": [str(resource.owner)],
        "GID": [str(resource.group)],
        "CLUSTERS/ID": [str(cluster) for cluster in sorted(resource.clusters)],
    }
