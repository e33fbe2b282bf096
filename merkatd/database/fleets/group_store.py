"""Groups: VM templates, each with a spending rate and a number of VMs (the paper's `groups`)."""

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import LONG_TEXT, SERIAL, table


class GroupColumns(TypedColumns):
    """The columns of `vm_groups`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    token: Named[str] = Column(sa.String(64), unique=True)
    name: Named[str] = Column(sa.String(128))
    owner: Named[int] = Column(sa.Integer())
    user_group: Named[int] = Column(sa.Integer())
    permissions: Named[int] = Column(sa.Integer())
    market: Named[str] = Column(sa.String(64))
    template: Named[str] = Column(LONG_TEXT)
    spending_rate: Named[float] = Column(sa.Double())
    nvm: Named[int] = Column(sa.Integer())
    ending: Named[bool] = Column(sa.Boolean())
    why: Named[str] = Column(LONG_TEXT)
    created_s: Named[float] = Column(sa.Double())
    ended_s: Named[float | None] = Column(sa.Double())


VM_GROUPS = table("vm_groups", GroupColumns, sa.Index(None, "ended_s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group."""

    id: int = -1
    """-1 for one that is not stored yet."""
    token: str
    """Of its creation, which counts once."""
    name: str
    owner: int
    user_group: int
    """OpenNebula's group of users that its permissions speak of."""
    permissions: int
    """Nine bits: use, manage, admin of the owner, of the group, of all others."""
    market: str
    template: str
    """Of its VMs, in OpenNebula's words."""
    spending_rate: float
    """Credits for each core that its VMs use for a period."""
    nvm: int
    """How many VMs it is to have."""
    ending: bool = False
    """It was deleted: its VMs are ended."""
    why: str = ""
    """What went otherwise than it was asked for, last."""
    created_s: float
    ended_s: float | None = None

    @property
    def rate_of_a_vm(self) -> float:
        """What each VM bids: its part of the spending rate (section 3.2)."""
        return self.spending_rate / max(self.nvm, 1)


_NAMES = tuple(field.name for field in fields(GroupRow))


def add(connection: sa.Connection, group: GroupRow) -> GroupRow:
    """Store a new group; the same with its id."""
    row = {name: getattr(group, name) for name in _NAMES if name != "id"}
    given = connection.execute(sa.insert(VM_GROUPS).values(**row)).inserted_primary_key
    if given is None:
        raise LookupError(f"group {group.name!r} was given no id")
    return replace(group, id=int(given[0]))


def change(connection: sa.Connection, group: int, **values: Any) -> None:
    """Other values from now on, by the names of `Group`."""
    connection.execute(sa.update(VM_GROUPS).where(VM_GROUPS.c.id == group).values(**values))


def created_by(connection: sa.Connection, token: str) -> GroupRow | None:
    """The group of this creation."""
    rows = connection.execute(sa.select(VM_GROUPS).where(VM_GROUPS.c.token == token))
    return next((_loaded(row) for row in rows), None)


def get(connection: sa.Connection, group: int) -> GroupRow | None:
    """The group of this id, also one that is over."""
    rows = connection.execute(sa.select(VM_GROUPS).where(VM_GROUPS.c.id == group))
    return next((_loaded(row) for row in rows), None)


def locked(connection: sa.Connection, group: int) -> GroupRow | None:
    """The same, and nobody else changes it until the transaction ends."""
    query = sa.select(VM_GROUPS).where(VM_GROUPS.c.id == group).with_for_update()
    return next((_loaded(row) for row in connection.execute(query)), None)


def living(
    connection: sa.Connection, owner: int | None = None, *, lock: bool = False
) -> tuple[GroupRow, ...]:
    """All that are not over, or those of an owner, oldest first; locked, they stay as they are."""
    query = sa.select(VM_GROUPS).where(VM_GROUPS.c.ended_s.is_(None)).order_by(VM_GROUPS.c.id)
    if owner is not None:
        query = query.where(VM_GROUPS.c.owner == owner)
    rows = connection.execute(query.with_for_update() if lock else query)
    return tuple(_loaded(row) for row in rows)


def permitting(
    connection: sa.Connection,
    user: int,
    user_groups: Collection[int],
    bit: int,
    owner: int | None = None,
) -> tuple[GroupRow, ...]:
    """Those that are not over and permit this to a user, oldest first; of one owner if given.

    `bit` is that of all others' three, as in `merkatd.groups.group_orders`.
    """
    said = VM_GROUPS.c.permissions
    conditions: list[sa.ColumnElement[bool]] = [VM_GROUPS.c.ended_s.is_(None)]
    if owner is not None:
        conditions.append(VM_GROUPS.c.owner == owner)
    classes = sa.or_(
        sa.and_(VM_GROUPS.c.owner == user, said.bitwise_and(bit << 6) != 0),
        sa.and_(VM_GROUPS.c.user_group.in_(sorted(user_groups)), said.bitwise_and(bit << 3) != 0),
        said.bitwise_and(bit) != 0,
    )
    query = sa.select(VM_GROUPS).where(*conditions, classes).order_by(VM_GROUPS.c.id)
    return tuple(_loaded(row) for row in connection.execute(query))


def of_ids(connection: sa.Connection, ids: set[int]) -> tuple[GroupRow, ...]:
    """Those of these ids, oldest first."""
    query = sa.select(VM_GROUPS).where(VM_GROUPS.c.id.in_(sorted(ids))).order_by(VM_GROUPS.c.id)
    return tuple(_loaded(row) for row in connection.execute(query))


def _loaded(row: sa.Row[Any]) -> GroupRow:
    return GroupRow(**{name: getattr(row, name) for name in _NAMES})
