"""The table of the VMs of groups (the paper's `vms`); a VM has a key before it has an id."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import chunks, table
from merkatd.database.fleets.group_store import VM_GROUPS


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
class GroupMember:
    """A VM of a group, which exists or is about to be created."""

    create_key: str
    vm_group: int
    owner: int
    """The VM's owner: the group's owner at the time of the creation request."""
    number: int
    """The VM's sequence number within its group, from 1 on."""
    vm: int | None = None
    """The VM's id, once the daemon has seen the VM."""
    leaving: bool = False
    """Whether the VM is about to be ended."""
    gone_s: float | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """A VM's bid, the number of VMs that share its group's spending rate, and the group's id."""

    bid: float
    nvm: int
    group: int


def add_group_members(connection: sa.Connection, vms: Iterable[GroupMember]) -> None:
    """Store new VMs of groups."""
    rows = [asdict(one) for one in vms]
    if rows:
        connection.execute(sa.insert(GROUP_VMS), rows)


def bind_group_vms(
    connection: sa.Connection, keys: Mapping[str, int], owners: Mapping[int, int]
) -> None:
    """Store the ids of the VMs that have a group's key and its owner.

    The owner must match because tenants can write any key into their own templates. A VM that
    appears after the daemon gave it up is marked to be ended.
    """
    for key, vm, late in _newly_seen(connection, keys, owners):
        _change_group_members(
            connection, [key], vm=vm, **({"gone_s": None, "leaving": True} if late else {})
        )


def mark_group_leaving(connection: sa.Connection, keys: Iterable[str]) -> None:
    """Mark these VMs as about to be ended."""
    _change_group_members(connection, keys, leaving=True)


def mark_group_gone(connection: sa.Connection, keys: Iterable[str], at_s: float) -> None:
    """Mark these VMs as gone or never created."""
    _change_group_members(connection, keys, leaving=True, gone_s=at_s)


def living_group_members(
    connection: sa.Connection, group: int | None = None
) -> tuple[GroupMember, ...]:
    """Return the VMs that are not gone, of one group or of all, in order of their numbers."""
    query = sa.select(GROUP_VMS).where(GROUP_VMS.c.gone_s.is_(None))
    if group is not None:
        query = query.where(GROUP_VMS.c.vm_group == group)
    rows = connection.execute(query.order_by(GROUP_VMS.c.vm_group, GROUP_VMS.c.number))
    return tuple(GroupMember(**row._asdict()) for row in rows)


def ids(connection: sa.Connection, vm_groups: Collection[int]) -> dict[int, list[int]]:
    """Return the ids of each group's VMs that exist, in order of their numbers."""
    found: dict[int, list[int]] = {group: [] for group in vm_groups}
    columns = (GROUP_VMS.c.vm_group, GROUP_VMS.c.vm)
    for some in chunks(sorted(found)):
        query = sa.select(*columns).where(GROUP_VMS.c.vm_group.in_(some))
        query = query.where(GROUP_VMS.c.gone_s.is_(None), GROUP_VMS.c.vm.is_not(None))
        for group, vm in connection.execute(query.order_by(GROUP_VMS.c.number)):
            if vm is not None:
                found[group].append(vm)
    return found


def highest_group_numbers(connection: sa.Connection) -> dict[int, int]:
    """Return the highest VM number of each group."""
    query = sa.select(GROUP_VMS.c.vm_group, sa.func.max(GROUP_VMS.c.number))
    rows = connection.execute(query.group_by(GROUP_VMS.c.vm_group))
    return {row[0]: row[1] for row in rows}


def rates(connection: sa.Connection) -> dict[int, Rate]:
    """Return each VM's part of its group's spending rate, by VM id."""
    rows = connection.execute(_RATES.where(GROUP_VMS.c.vm.is_not(None))).all()
    there = Counter(row.vm_group for row in rows)
    return {row.vm: _rate(row, there[row.vm_group]) for row in rows if row.vm is not None}


def rates_of_new(
    connection: sa.Connection, keys: Mapping[str, int], owners: Mapping[int, int]
) -> dict[int, Rate]:
    """Return the same for VMs that were seen with a key, but whose ids are not stored yet."""
    seen = {key: vm for key, vm, late in _newly_seen(connection, keys, owners) if not late}
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
        VM_GROUPS.c.spending_rate,
        VM_GROUPS.c.nvm,
    )
    .join(VM_GROUPS, VM_GROUPS.c.id == GROUP_VMS.c.vm_group)
    .where(GROUP_VMS.c.gone_s.is_(None))
)


def _rate(row: Any, there: int) -> Rate:
    """Return a VM's part of the rate; VMs about to be ended share in it until they are gone."""
    nvm = max(row.nvm, there, 1)
    return Rate(row.spending_rate / nvm, nvm, row.vm_group)


def _newly_seen(
    connection: sa.Connection, keys: Mapping[str, int], owners: Mapping[int, int]
) -> list[tuple[str, int, bool]]:
    """Return key and id of each VM whose id can be stored now, and whether it was given up."""
    columns = (GROUP_VMS.c.create_key, GROUP_VMS.c.gone_s, GROUP_VMS.c.owner)
    waiting = connection.execute(sa.select(*columns).where(GROUP_VMS.c.vm.is_(None))).all()
    if not waiting:
        return []
    taken = set(connection.scalars(sa.select(GROUP_VMS.c.vm).where(GROUP_VMS.c.vm.is_not(None))))
    found = []
    for key, gone_s, owner in waiting:
        vm = keys.get(key)
        if vm is None or vm in taken or owners.get(vm) != owner:
            continue
        taken.add(vm)
        found.append((key, vm, gone_s is not None))
    return found


def _change_group_members(connection: sa.Connection, keys: Iterable[str], **values: Any) -> None:
    for some in chunks(sorted(keys)):
        query = sa.update(GROUP_VMS).where(GROUP_VMS.c.create_key.in_(some))
        connection.execute(query.values(**values))
