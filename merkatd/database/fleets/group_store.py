"""The table of groups: VM template, spending rate and number of VMs (the paper's `groups`)."""

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
    """A group."""

    id: int = -1
    """The group's id; -1 before it is stored."""
    token: str
    """Token of the creation request: a repeated request creates no second group."""
    name: str
    owner: int
    user_group: int
    """OpenNebula's group of users to which the group bits of `permissions` apply."""
    permissions: int
    """Nine bits: use, manage and admin of the owner, of the group of users, of all others."""
    market: str
    template: str
    """OpenNebula's template of its VMs."""
    spending_rate: float
    """Credits a period for each core that its VMs use."""
    nvm: int
    """The number of VMs that it should have."""
    ending: bool = False
    """Whether the group was deleted and its VMs are being ended."""
    why: str = ""
    """The most recent problem of the group."""
    created_s: float
    ended_s: float | None = None

    @property
    def rate_of_a_vm(self) -> float:
        """Return the bid of each VM: an equal part of the spending rate (section 3.2)."""
        return self.spending_rate / max(self.nvm, 1)


_NAMES = tuple(field.name for field in fields(GroupRow))
_EVERY = sa.select(VM_GROUPS).order_by(VM_GROUPS.c.id)
_LIVING = _EVERY.where(VM_GROUPS.c.ended_s.is_(None))
_LIVING_OF = _LIVING.where(VM_GROUPS.c.owner == sa.bindparam("its_owner"))
_LOCK_LIVING = _LIVING.with_for_update()
_LOCK_LIVING_OF = _LIVING_OF.with_for_update()
_CREATED_BY = _EVERY.where(VM_GROUPS.c.token == sa.bindparam("its_token"))
_GET = _EVERY.where(VM_GROUPS.c.id == sa.bindparam("its_id"))
_LOCK = _GET.with_for_update()
_OF_IDS = _EVERY.where(VM_GROUPS.c.id.in_(sa.bindparam("ids", expanding=True)))


def add(connection: sa.Connection, group: GroupRow) -> GroupRow:
    """Store a new group, and return it with its id."""
    row = {name: getattr(group, name) for name in _NAMES if name != "id"}
    given = connection.execute(sa.insert(VM_GROUPS).values(**row)).inserted_primary_key
    if given is None:
        raise LookupError(f"the database assigned no id to group {group.name!r}")
    return replace(group, id=int(given[0]))


def change(connection: sa.Connection, group: int, **values: Any) -> None:
    """Change values of a group, by the field names of `GroupRow`."""
    connection.execute(sa.update(VM_GROUPS).where(VM_GROUPS.c.id == group).values(**values))


def created_by(connection: sa.Connection, token: str) -> GroupRow | None:
    """Return the group of this creation token."""
    rows = connection.execute(_CREATED_BY, {"its_token": token})
    return next((_loaded(row) for row in rows), None)


def get(connection: sa.Connection, group: int) -> GroupRow | None:
    """Return the group of this id, also if it has ended."""
    return next(map(_loaded, connection.execute(_GET, {"its_id": group})), None)


def locked(connection: sa.Connection, group: int) -> GroupRow | None:
    """Return the group and lock its row until the transaction ends."""
    return next(map(_loaded, connection.execute(_LOCK, {"its_id": group})), None)


def living(
    connection: sa.Connection, owner: int | None = None, *, lock: bool = False
) -> tuple[GroupRow, ...]:
    """Return all groups that have not ended, or an owner's, oldest first; lock them if asked."""
    if owner is None:
        rows = connection.execute(_LOCK_LIVING if lock else _LIVING)
    else:
        rows = connection.execute(_LOCK_LIVING_OF if lock else _LIVING_OF, {"its_owner": owner})
    return tuple(_loaded(row) for row in rows)


def permitting(
    connection: sa.Connection,
    user: int,
    user_groups: Collection[int],
    bit: int,
    owner: int | None = None,
) -> tuple[GroupRow, ...]:
    """Return the groups that have not ended and permit an action to a user, oldest first.

    With `owner`, return only that owner's. `bit` is the action's bit among the three of all
    others, as in `merkatd.groups.group_orders`.
    """
    permissions = VM_GROUPS.c.permissions
    conditions: list[sa.ColumnElement[bool]] = [VM_GROUPS.c.ended_s.is_(None)]
    if owner is not None:
        conditions.append(VM_GROUPS.c.owner == owner)
    classes = sa.or_(
        sa.and_(VM_GROUPS.c.owner == user, permissions.bitwise_and(bit << 6) != 0),
        sa.and_(
            VM_GROUPS.c.user_group.in_(sorted(user_groups)), permissions.bitwise_and(bit << 3) != 0
        ),
        permissions.bitwise_and(bit) != 0,
    )
    query = sa.select(VM_GROUPS).where(*conditions, classes).order_by(VM_GROUPS.c.id)
    return tuple(_loaded(row) for row in connection.execute(query))


def of_ids(connection: sa.Connection, ids: set[int]) -> tuple[GroupRow, ...]:
    """Return the groups of these ids, oldest first."""
    return tuple(_loaded(row) for row in connection.execute(_OF_IDS, {"ids": sorted(ids)}))


def _loaded(row: sa.Row[Any]) -> GroupRow:
    return GroupRow(**{name: getattr(row, name) for name in _NAMES})
