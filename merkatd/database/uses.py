"""Uses: what each VM used and was charged in a day, a row a day, payer and VM."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.accounts import ACCOUNTS
from merkatd.database.schema import table


class UseColumns(TypedColumns):
    """The columns of `uses`; the key leads with the account, as statements do."""

    account: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("accounts.id"), primary_key=True, autoincrement=False
    )
    day: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    vm: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    name: Named[str] = Column(sa.String(128))
    seconds: Named[float] = Column(sa.Double())
    cpu_s: Named[float] = Column(sa.Double())
    memory_s: Named[float] = Column(sa.Double())
    cpu_cost: Named[int] = Column(sa.BigInteger())
    memory_cost: Named[int] = Column(sa.BigInteger())
    network_s: Named[float] = Column(sa.Double(), server_default="0")
    disk_s: Named[float] = Column(sa.Double(), server_default="0")
    network_cost: Named[int] = Column(sa.BigInteger(), server_default="0")
    disk_cost: Named[int] = Column(sa.BigInteger(), server_default="0")


USES = table("uses", UseColumns, sa.Index(None, "day"))


@dataclass(frozen=True, slots=True)
class Use:
    """What a VM used on a day, or in a month, and what one account paid for it."""

    account: int
    day: int
    """Counted from the epoch."""
    vm: int
    name: str
    seconds: float
    cpu_s: float
    """Percent of a core x seconds,"""
    memory_s: float
    """and MiB x seconds."""
    cpu_cost: int
    memory_cost: int
    network_s: float = 0.0
    """Mbit/s x seconds, where network is sold,"""
    disk_s: float = 0.0
    """and MiB/s x seconds, where disks are."""
    network_cost: int = 0
    disk_cost: int = 0

    def plus(self, other: "Use") -> "Use":
        """Both together, with the other's day and name."""
        return Use(
            self.account,
            other.day,
            self.vm,
            other.name,
            self.seconds + other.seconds,
            self.cpu_s + other.cpu_s,
            self.memory_s + other.memory_s,
            self.cpu_cost + other.cpu_cost,
            self.memory_cost + other.memory_cost,
            self.network_s + other.network_s,
            self.disk_s + other.disk_s,
            self.network_cost + other.network_cost,
            self.disk_cost + other.disk_cost,
        )


def of_day(connection: sa.Connection, day: int) -> tuple[Use, ...]:
    """Everybody's on one day."""
    rows = connection.execute(sa.select(USES).where(USES.c.day == day))
    return tuple(_use(row) for row in rows)


def of_owner(connection: sa.Connection, owner: int, first: int, last: int) -> tuple[Use, ...]:
    """Those that an OpenNebula user's accounts paid for, from the first day to the last."""
    theirs = (ACCOUNTS.c.id == USES.c.account) & (ACCOUNTS.c.owner == owner)
    query = (
        sa.select(USES)
        .select_from(sa.join(USES, ACCOUNTS, theirs))
        .where(USES.c.day.between(first, last))
        .order_by(USES.c.account, USES.c.day, USES.c.vm)
    )
    return tuple(_use(row) for row in connection.execute(query))


def replace_day(connection: sa.Connection, day: int, uses: Iterable[Use]) -> None:
    """These are the uses of the day from now on."""
    connection.execute(sa.delete(USES).where(USES.c.day == day))
    rows = [{name: getattr(use, name) for name in Use.__dataclass_fields__} for use in uses]
    if rows:
        connection.execute(sa.insert(USES), rows)


def _use(row: sa.Row[Any]) -> Use:
    return Use(*(getattr(row, name) for name in Use.__dataclass_fields__))
