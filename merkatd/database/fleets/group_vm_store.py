"""The table of the VMs of groups (the paper's `vms`); a VM has a key before it has an id."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import chunks, table
from merkatd.database.fleets.group_store import VM_GROUPS
from merkatd.database.fleets.member_table import FleetMember, MemberTable


class GroupVmColumns(TypedColumns):
    """The columns of `vm_group_vms`."""

    create_key: Named[str] = Column(sa.String(64), primary_key=True)
    vm_group: Named[int] = Column(sa.BigInteger(), sa.ForeignKey("vm_groups.id"))
    owner: Named[int] = Column(sa.Integer())
    number: Named[int] = Column(sa.Integer())
    vm: Named[int | None] = Column(sa.Integer(), unique=True)
    leaving: Named[bool] = Column(sa.Boolean())
    gone_s: Named[float | None] = Column(sa.Double())


GROUP_VMS = table(
    "vm_group_vms", GroupVmColumns, sa.Index(None, "vm_group"), sa.Index(None, "gone_s")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember(FleetMember):
    """A VM of a group, which exists or is about to be created."""

    vm_group: int
    owner: int
    """The VM's owner: the group's owner at the creation request, or a later one of both."""


GROUP_MEMBERS = MemberTable(GROUP_VMS, "vm_group", GroupMember)
_WAITING = sa.select(
    GROUP_VMS.c.create_key, GROUP_VMS.c.gone_s, GROUP_VMS.c.owner, GROUP_VMS.c.vm_group
).where(GROUP_VMS.c.vm.is_(None))


_OF_FORMER_OWNERS = (
    sa.select(GROUP_VMS.c.create_key, GROUP_VMS.c.vm, VM_GROUPS.c.owner)
    .join(VM_GROUPS, VM_GROUPS.c.id == GROUP_VMS.c.vm_group)
    .where(GROUP_VMS.c.gone_s.is_(None), GROUP_VMS.c.owner != VM_GROUPS.c.owner)
)


@dataclass(frozen=True, slots=True)
class Rate:
    """A VM's bid, the number of VMs that share its group's spending rate, and the group's id."""

    bid: float
    nvm: int
    group: int


def bind_group_vms(
    connection: sa.Connection, keys: Mapping[tuple[str, int], int], owners: Mapping[int, int]
) -> None:
    """Store the ids of the VMs that have a group's key and its owner.

    A VM that followed its group to a new owner gets that owner.
    """
    GROUP_MEMBERS.bind(connection, GROUP_MEMBERS.newly_seen(connection, _WAITING, keys, owners))
    for key, vm, owner in connection.execute(_OF_FORMER_OWNERS).all():
        if vm is not None and owners.get(vm) == owner:
            GROUP_MEMBERS.change(connection, [key], owner=owner)


def ids(connection: sa.Connection, vm_groups: Collection[int]) -> dict[int, list[int]]:
    """Return the ids of each group's VMs that exist, in order of their numbers."""
    vms: dict[int, list[int]] = {group: [] for group in vm_groups}
    columns = (GROUP_VMS.c.vm_group, GROUP_VMS.c.vm)
    for some in chunks(sorted(vms)):
        query = sa.select(*columns).where(GROUP_VMS.c.vm_group.in_(some))
        query = query.where(GROUP_VMS.c.gone_s.is_(None), GROUP_VMS.c.vm.is_not(None))
        for group, vm in connection.execute(query.order_by(GROUP_VMS.c.number)):
            if vm is not None:
                vms[group].append(vm)
    return vms


def groups_of(connection: sa.Connection, vms: Collection[int], owner: int) -> dict[int, int]:
    """Return the groups in which this owner has the VMs, by VM id."""
    found: dict[int, int] = {}
    for some in chunks(sorted(vms)):
        query = sa.select(GROUP_VMS.c.vm, GROUP_VMS.c.vm_group)
        query = query.where(GROUP_VMS.c.vm.in_(some), GROUP_VMS.c.gone_s.is_(None))
        rows = connection.execute(query.where(GROUP_VMS.c.owner == owner))
        found |= {vm: group for vm, group in rows if vm is not None}
    return found


def rates(connection: sa.Connection, owners: Mapping[int, int]) -> dict[int, Rate]:
    """Return each VM's part of its group's spending rate, by VM id.

    `owners` are the present owners by VM id: a VM that has another owner now has left its group.
    """
    known = connection.execute(_RATES_OF_EXISTING).all()
    rows = [row for row in known if owners.get(row.vm or 0, row.owner) == row.owner]
    there = Counter(row.vm_group for row in rows)
    return {row.vm: _rate(row, there[row.vm_group]) for row in rows if row.vm is not None}


def rates_of_new(
    connection: sa.Connection, keys: Mapping[tuple[str, int], int], owners: Mapping[int, int]
) -> dict[int, Rate]:
    """Return the same for VMs that were seen with a key, but whose ids are not stored yet."""
    newly_seen = GROUP_MEMBERS.newly_seen(connection, _WAITING, keys, owners)
    seen = {
        seen_member.key: seen_member.vm for seen_member in newly_seen if not seen_member.is_late
    }
    if not seen:
        return {}
    rows = connection.execute(_RATES).all()
    there = Counter(row.vm_group for row in rows if row.vm is not None or row.create_key in seen)
    return {
        seen[row.create_key]: _rate(row, there[row.vm_group])
        for row in rows
        if row.vm is None and row.create_key in seen
    }


_RATES = (
    sa.select(
        GROUP_VMS.c.vm,
        GROUP_VMS.c.create_key,
        GROUP_VMS.c.vm_group,
        GROUP_VMS.c.owner,
        VM_GROUPS.c.spending_rate,
        VM_GROUPS.c.nvm,
    )
    .join(VM_GROUPS, VM_GROUPS.c.id == GROUP_VMS.c.vm_group)
    .where(GROUP_VMS.c.gone_s.is_(None))
)
_RATES_OF_EXISTING = _RATES.where(GROUP_VMS.c.vm.is_not(None))


def _rate(row: Any, there: int) -> Rate:
    """Return a VM's part of the rate; VMs about to be ended share in it until they are gone."""
    nvm = max(row.nvm, there, 1)
    return Rate(row.spending_rate / nvm, nvm, row.vm_group)
