"""The tables of tenants (OpenNebula users that have an account) and of their weights."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import table
from merkatd.database.base.transactions import LostRaceError
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind

DEFAULT_WEIGHT = 1.0
"""The weight of a tenant if neither its own nor its group's weight is set."""
MOST_WEIGHT = 1e6
LONGEST_NAME = 128
"""OpenNebula's limit on names; longer names are cut."""


class TenantColumns(TypedColumns):
    """The columns of `tenants`."""

    owner: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    name: Named[str | None] = Column(sa.String(LONGEST_NAME))
    group_id: Named[int | None] = Column(sa.Integer())
    weight: Named[float | None] = Column(sa.Double())
    met_s: Named[float] = Column(sa.Double())
    retired_s: Named[float | None] = Column(sa.Double())


class UserGroupColumns(TypedColumns):
    """The columns of `tenant_groups`: OpenNebula's groups of users that have a weight."""

    id: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    weight: Named[float] = Column(sa.Double())


TENANTS = table("tenants", TenantColumns)
GROUPS = table("tenant_groups", UserGroupColumns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRow:
    """A tenant."""

    owner: int
    """OpenNebula's id of the user."""
    name: str | None
    group: int | None
    """OpenNebula's id of the user's group, if known."""
    own_weight: float | None
    """The weight that is set for this tenant."""
    group_weight: float | None
    """The weight that is set for its group."""
    retired_s: float | None = None
    """The time of its retirement, after its user was removed from OpenNebula."""

    @property
    def weight(self) -> float:
        """Return its own weight, else its group's, else the default."""
        return _weight_of(self.own_weight, self.group_weight)


def _weight_of(own: float | None, of_group: float | None) -> float:
    return next((weight for weight in (own, of_group) if weight is not None), DEFAULT_WEIGHT)


_GET = sa.select(TENANTS).where(TENANTS.c.owner == sa.bindparam("its_owner"))
_EVERY = (
    sa.select(TENANTS, GROUPS.c.weight.label("group_weight"))
    .outerjoin(GROUPS, GROUPS.c.id == TENANTS.c.group_id)
    .order_by(TENANTS.c.owner)
)
_ONE = _EVERY.where(TENANTS.c.owner == sa.bindparam("its_owner"))
_WEIGHTS = (
    sa.select(TENANTS.c.weight, GROUPS.c.weight, sa.func.count())
    .join(
        ACCOUNTS,
        sa.and_(ACCOUNTS.c.owner == TENANTS.c.owner, ACCOUNTS.c.kind == AccountKind.TENANT),
    )
    .outerjoin(GROUPS, GROUPS.c.id == TENANTS.c.group_id)
    .where(TENANTS.c.retired_s.is_(None))
    .group_by(TENANTS.c.weight, GROUPS.c.weight)
)


def ensure_tenants(
    connection: sa.Connection,
    owner: int,
    at_s: float,
    name: str | None = None,
    group: int | None = None,
) -> bool:
    """Store a tenant, or its new name and group; return whether the tenant is new."""
    name = None if name is None else name[:LONGEST_NAME]
    known = connection.execute(_GET, {"its_owner": owner}).one_or_none()
    facts: dict[str, Any] = {"name": name, "group_id": group}
    if known is None:
        try:
            connection.execute(sa.insert(TENANTS), {"owner": owner, "met_s": at_s, **facts})
        except sa.exc.IntegrityError as error:
            raise LostRaceError(f"another transaction stored tenant {owner} first") from error
        return True
    new = {key: value for key, value in facts.items() if value not in {None, getattr(known, key)}}
    if new:
        connection.execute(sa.update(TENANTS).where(TENANTS.c.owner == owner).values(**new))
    return False


def every(connection: sa.Connection) -> tuple[TenantRow, ...]:
    """Return all tenants, ordered by id."""
    return _read_tenants(connection, None)


def active(connection: sa.Connection) -> tuple[TenantRow, ...]:
    """Return all tenants that are not retired, ordered by id."""
    return tuple(tenant for tenant in every(connection) if tenant.retired_s is None)


def retire(connection: sa.Connection, owner: int, at_s: float | None) -> None:
    """Retire a tenant; with None, make it active again."""
    change = sa.update(TENANTS).where(TENANTS.c.owner == owner)
    connection.execute(change.values(retired_s=at_s))


def get(connection: sa.Connection, owner: int) -> TenantRow | None:
    """Return the tenant of this id."""
    return next(iter(_read_tenants(connection, owner)), None)


def active_weights(connection: sa.Connection) -> dict[float, int]:
    """Return the number of tenants by weight: those that have an account and are not retired."""
    weights: Counter[float] = Counter()
    for own, of_group, count in connection.execute(_WEIGHTS):
        weights[_weight_of(own, of_group)] += count
    return dict(weights)


def name_of(connection: sa.Connection, owner: int) -> str | None:
    """Return the name of a tenant, None if it is not known."""
    return connection.scalar(sa.select(TENANTS.c.name).where(TENANTS.c.owner == owner))


def groups(connection: sa.Connection) -> dict[int, float]:
    """Return the weights of groups that have one."""
    rows = connection.execute(sa.select(GROUPS.c.id, GROUPS.c.weight).order_by(GROUPS.c.id))
    return {group: weight for group, weight in rows}  # noqa: C416 - rows are no pairs to mypy


def set_weight(connection: sa.Connection, owner: int, weight: float | None) -> None:
    """Set a tenant's own weight; None removes it."""
    values = {"weight": None if weight is None else checked(weight)}
    connection.execute(sa.update(TENANTS).where(TENANTS.c.owner == owner).values(**values))


def set_group_weight(connection: sa.Connection, group: int, weight: float | None) -> None:
    """Set the weight of a group's tenants without a weight of their own; None removes it."""
    connection.execute(sa.delete(GROUPS).where(GROUPS.c.id == group))
    if weight is not None:
        connection.execute(sa.insert(GROUPS), {"id": group, "weight": checked(weight)})


def checked(weight: float) -> float:
    """Return the weight. Raise ValueError if it is invalid."""
    if not (math.isfinite(weight) and 0 <= weight <= MOST_WEIGHT):
        raise ValueError(f"weight must be a number from 0 to {MOST_WEIGHT:g} (got {weight})")
    return float(weight)


def names(connection: sa.Connection, *, retired: bool = True) -> dict[int, str]:
    """Return the known names of tenants by id, with or without retired ones."""
    query = sa.select(TENANTS.c.owner, TENANTS.c.name)
    rows = connection.execute(query if retired else query.where(TENANTS.c.retired_s.is_(None)))
    return {owner: name for owner, name in rows if name is not None}


def _read_tenants(connection: sa.Connection, owner: int | None) -> tuple[TenantRow, ...]:
    if owner is None:
        rows = connection.execute(_EVERY)
    else:
        rows = connection.execute(_ONE, {"its_owner": owner})
    return tuple(
        TenantRow(
            owner=row.owner,
            name=row.name,
            group=row.group_id,
            own_weight=row.weight,
            group_weight=row.group_weight,
            retired_s=row.retired_s,
        )
        for row in rows
    )
