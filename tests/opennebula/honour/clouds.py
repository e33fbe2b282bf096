"""Small clouds of typed words, for judging."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merkatd.opennebula.constraints import Judged, judge
from merkatd.opennebula.pools.constraint_facts import (
    AclRule,
    Datastore,
    Estate,
    Facts,
    Member,
    Network,
    Stay,
    User,
    Wants,
)

ALICE, BOB = User(2, "alice", (100,)), User(3, "bob", (1, 101))
ROOT = User(0, "oneadmin", (0,))


@dataclass(frozen=True, slots=True)
class Vm:
    """What is judged of a VM."""

    id: int = 0
    owner: int = 0
    group: int = 0
    wants: Wants = field(default_factory=Wants)
    member: Member | None = None
    stay: Stay | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """What is judged of a host."""

    id: int
    name: str
    facts: Facts


def host(row: int, cluster: int = 0, says: Mapping[str, Any] | None = None, **facts: Any) -> Host:
    """Host h0, h1...; what it says besides its name."""
    values = {"NAME": [f"h{row}"], "ID": [str(row)]}
    for name, value in (says or {}).items():
        values[name] = [str(one) for one in value] if isinstance(value, list) else [str(value)]
    return Host(row, f"h{row}", Facts(row, cluster, values, **facts))


def datastore(row: int, name: str, free_mib: float = 1e6, **others: Any) -> Datastore:
    """A shared system datastore of cluster 0 that everybody may use."""
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
    return Datastore(row, name, free_mib=free_mib, **values)


def network(row: int, name: str, free: int = 10, **others: Any) -> Network:
    """A network of cluster 0 that everybody may use."""
    values = {
        "clusters": frozenset({0}),
        "owner": 0,
        "group": 0,
        "permissions": 0o644,
        **others,
    }
    return Network(row, name, free_leases=free, **values)


def users(*acl: AclRule, **others: Any) -> Estate:
    """A cloud with users, so that rights are judged."""
    return Estate(users={one.id: one for one in (ROOT, ALICE, BOB)}, acl=acl, **others)


def where(hosts: Sequence[Host], estate: Estate | None = None, **vm: Any) -> list[str]:
    """The names of the hosts that may take a VM that is judged alone."""
    judged = judge([Vm(**vm)], hosts, estate or Estate())
    return names(judged, hosts, 0)


def names(judged: Judged, hosts: Sequence[Host], row: int) -> list[str]:
    """The names of the hosts that may take the VM in this row."""
    one = int(judged.constraints.vm_class[row])
    everywhere = np.ones(len(hosts), dtype=bool)
    allowed = everywhere if one < 0 else judged.constraints.allowed[one]
    return [host.name for host, may in zip(hosts, allowed, strict=True) if may]


def why(hosts: Sequence[Host], estate: Estate | None = None, **vm: Any) -> str:
    """Why no host may take a VM."""
    judged = judge([Vm(**vm)], hosts, estate or Estate())
    return judged.constraints.unplaceable.get(0, "")
