"""The VMs of groups (the paper's `vms`), each known by its key before it exists."""

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
    """One VM of a group, there or about to be."""

    create_key: str
    vm_group: int
    owner: int
    """Whose it is: its group's owner when it was asked for."""
    number: int
    """It is the how-manieth of its group, from 1 on."""
    vm: int | None = None
    """Its id, once it was seen."""
    leaving: bool = False
    """Whether it is to be ended."""
    gone_s: float | None = None


@dataclass(frozen=True, slots=True)
class Rate:
    """What a VM of a group bids, over how many its group's spending rate is spread, and which."""

    bid: float
    nvm: int
    group: int


def add_group_members(connection: sa.Connection, vms: Iterable[GroupMember]) -> None:
    """New ones."""
    rows = [asdict(one) for one in vms]
    if rows:
        connection.execute(sa.insert(GROUP_VMS), rows)


def bind_group_vms(
    connection: sa.Connection, keys: Mapping[str, int], owners: Mapping[int, int]
) -> None:
    """Learn the ids of VMs that were seen with a key.

    Anybody may write any key into a template: only a VM of the right owner counts. One that
    comes after it was given up is to be ended.
    """
    for key, vm, late in _newly_seen(connection, keys, owners):
        _change_group_members(
            connection, [key], vm=vm, **({"gone_s": None, "leaving": True} if late else {})
        )


def mark_group_leaving(connection: sa.Connection, keys: Iterable[str]) -> None:
    """These are to be ended."""
    _change_group_members(connection, keys, leaving=True)


def mark_group_gone(connection: sa.Connection, keys: Iterable[str], at_s: float) -> None:
    """These are gone, or were never made."""
    _change_group_members(connection, keys, leaving=True, gone_s=at_s)


def living_group_members(
    connection: sa.Connection, group: int | None = None
) -> tuple[GroupMember, ...]:
    """All that are not gone, of one group or of all, in the order in which they were added."""
    query = sa.select(GROUP_VMS).where(GROUP_VMS.c.gone_s.is_(None))
    if group is not None:
        query = query.where(GROUP_VMS.c.vm_group == group)
    rows = connection.execute(query.order_by(GROUP_VMS.c.vm_group, GROUP_VMS.c.number))
    return tuple(GroupMember(**row._asdict()) for row in rows)


def ids(connection: sa.Connection, vm_groups: Collection[int]) -> dict[int, list[int]]:
    """By group, the ids of those of its VMs that were made and are not gone, in their order."""
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
    """By group: the highest number it ever gave."""
    query = sa.select(GROUP_VMS.c.vm_group, sa.func.max(GROUP_VMS.c.number))
    rows = connection.execute(query.group_by(GROUP_VMS.c.vm_group))
    return {row[0]: row[1] for row in rows}


def rates(connection: sa.Connection) -> dict[int, Rate]:
    """By VM id: the part of its group's spending rate that each VM has."""
    rows = connection.execute(_RATES.where(GROUP_VMS.c.vm.is_not(None))).all()
    there = Counter(row.vm_group for row in rows)
    return {row.vm: _rate(row, there[row.vm_group]) for row in rows if row.vm is not None}


def rates_of_new(
    connection: sa.Connection, keys: Mapping[str, int], owners: Mapping[int, int]
) -> dict[int, Rate]:
    """The same for VMs that were seen with a key, but whose ids nobody has learned yet."""
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
    """Its part of the rate: VMs that are to end share in it until they are gone."""
    nvm = max(row.nvm, there, 1)
    return Rate(row.spending_rate / nvm, nvm, row.vm_group)


def _newly_seen(
    connection: sa.Connection, keys: Mapping[str, int], owners: Mapping[int, int]
) -> list[tuple[str, int, bool]]:
    """Key and id of each VM whose id can be learned now, and whether it was given up before."""
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
