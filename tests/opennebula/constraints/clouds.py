"""Small clouds of parsed constraints, for judging feasibility."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merkatd.opennebula.constraints import Feasibility, judge_feasibility
from merkatd.opennebula.pools.constraint_facts import (
    AccessRule,
    DatastoreFacts,
    DiskLocation,
    HostFacts,
    NetworkFacts,
    RoleMember,
    SiteFacts,
    UserFacts,
    VmRequirements,
)

ALICE, BOB = UserFacts(2, "alice", (100,)), UserFacts(3, "bob", (1, 101))
ROOT = UserFacts(0, "oneadmin", (0,))


@dataclass(frozen=True, slots=True)
class Vm:
    """The judged facts of a VM."""

    id: int = 0
    owner: int = 0
    group: int = 0
    wants: VmRequirements = field(default_factory=VmRequirements)
    member: RoleMember | None = None
    stay: DiskLocation | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """The judged facts of a host."""

    id: int
    name: str
    facts: HostFacts


def host(row: int, cluster: int = 0, says: Mapping[str, Any] | None = None, **facts: Any) -> Host:
    """Return host h0, h1...; `says` has its attributes besides its name."""
    values = {"NAME": [f"h{row}"], "ID": [str(row)]}
    for name, value in (says or {}).items():
        values[name] = [str(item) for item in value] if isinstance(value, list) else [str(value)]
    return Host(row, f"h{row}", HostFacts(row, cluster, values, **facts))


def datastore(row: int, name: str, free_mib: float = 1e6, **others: Any) -> DatastoreFacts:
    """Return a shared system datastore of cluster 0 that all may use."""
    values = {
        "kind": 1,
        "clusters": frozenset({0}),
        "usable": True,
        "total_mib": 2e6,
        "shared": True,
        "owner": 0,
        "group": 0,
        "permissions": 0o644,
        **others,
    }
    return DatastoreFacts(row, name, free_mib=free_mib, **values)


def network(row: int, name: str, free: int = 10, **others: Any) -> NetworkFacts:
    """Return a network of cluster 0 that all may use."""
    values = {
        "clusters": frozenset({0}),
        "owner": 0,
        "group": 0,
        "permissions": 0o644,
        **others,
    }
    return NetworkFacts(row, name, free_leases=free, **values)


def users(*acl: AccessRule, **others: Any) -> SiteFacts:
    """Return a cloud with users, so that rights are judged."""
    return SiteFacts(users={user.id: user for user in (ROOT, ALICE, BOB)}, acl=acl, **others)


def allowed_hosts(hosts: Sequence[Host], estate: SiteFacts | None = None, **vm: Any) -> list[str]:
    """Return the names of the hosts that may take a VM judged alone."""
    judged = judge_feasibility([Vm(**vm)], hosts, estate or SiteFacts())
    return names(judged, hosts, 0)


def names(judged: Feasibility, hosts: Sequence[Host], row: int) -> list[str]:
    """Return the names of the hosts that may take the VM in this row."""
    vm_class = int(judged.constraints.vm_class[row])
    everywhere = np.ones(len(hosts), dtype=bool)
    allowed = everywhere if vm_class < 0 else judged.constraints.allowed[vm_class]
    return [host.name for host, may in zip(hosts, allowed, strict=True) if may]


def reason(hosts: Sequence[Host], estate: SiteFacts | None = None, **vm: Any) -> str:
    """Return why no host may take a VM."""
    judged = judge_feasibility([Vm(**vm)], hosts, estate or SiteFacts())
    return judged.constraints.unplaceable.get(0, "")
