"""What each VM was charged in a period, and used and was charged in a day."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.cluster import Floats, Ints
from merkatd.database.base.schema import LONG_BLOB, pack, table, unpack
from merkatd.database.ledger.account_store import ACCOUNTS


class DetailColumns(TypedColumns):
    """The columns of `details`."""

    period: Named[int] = Column(
        sa.Integer(), sa.ForeignKey("periods.number"), primary_key=True, autoincrement=False
    )
    at_s: Named[float] = Column(sa.Double())
    folded: Named[bool] = Column(sa.Boolean())
    data: Named[bytes] = Column(LONG_BLOB)


DETAILS = table("details", DetailColumns, sa.Index(None, "folded", "period"))


@dataclass(frozen=True, slots=True, eq=False)
class Detail:
    """What the VMs were charged for one period; a row each."""

    period: int
    at_s: float
    """When the charges were posted."""
    vm: Ints
    account: Ints
    """Who paid."""
    seconds: Floats
    """[vms]: for how long each was charged."""
    allocation: Floats
    """[vms, resources]: of CPU and memory, or of network and disk too where one was sold."""
    charged: Ints
    """[vms, resources]: micro-credits."""
    names: Sequence[str]


def store(connection: sa.Connection, detail: Detail) -> None:
    """Keep what a period came to."""
    names = "\n".join(name.replace("\n", " ") for name in detail.names).encode()
    data = pack(
        {
            "vm": detail.vm,
            "account": detail.account,
            "seconds": detail.seconds,
            # Seven digits are enough for core-hours; credits are whole.
            "allocation": detail.allocation.astype(np.float32),
            "charged": detail.charged,
            "names": np.frombuffer(names, dtype=np.uint8),
        }
    )
    row = {"period": detail.period, "at_s": detail.at_s, "folded": False, "data": data}
    connection.execute(sa.insert(DETAILS), row)


def has_details(connection: sa.Connection, period: int) -> bool:
    """Whether there are details of this period."""
    query = sa.select(DETAILS.c.period).where(DETAILS.c.period == period)
    return connection.scalar(query) is not None


def load(connection: sa.Connection, period: int) -> Detail | None:
    """The details of a period; None where there are none, or they were forgotten."""
    row = connection.execute(sa.select(DETAILS).where(DETAILS.c.period == period)).one_or_none()
    return None if row is None else _detail(row)


def unfolded(connection: sa.Connection, limit: int) -> tuple[Detail, ...]:
    """The oldest details that were not added to the days yet."""
    query = sa.select(DETAILS).where(DETAILS.c.folded.is_(False))
    rows = connection.execute(query.order_by(DETAILS.c.period).limit(limit))
    return tuple(_detail(row) for row in rows)


def mark_folded(connection: sa.Connection, last: int) -> None:
    """All up to this period are in the days now."""
    query = sa.update(DETAILS).where(DETAILS.c.folded.is_(False), DETAILS.c.period <= last)
    connection.execute(query.values(folded=True))


def forget(connection: sa.Connection, before: int) -> None:
    """Drop the details of periods before this one, as far as they are in the days."""
    query = sa.delete(DETAILS).where(DETAILS.c.folded.is_(True), DETAILS.c.period < before)
    connection.execute(query)


def _detail(row: sa.Row[Any]) -> Detail:
    arrays = unpack(row.data)
    text = arrays["names"].tobytes().decode()
    return Detail(
        period=row.period,
        at_s=row.at_s,
        vm=arrays["vm"],
        account=arrays["account"],
        # Earlier versions kept one number for all.
        seconds=np.broadcast_to(arrays["seconds"], len(arrays["vm"])).astype(float),
        allocation=arrays["allocation"].astype(float),
        charged=arrays["charged"],
        names=text.split("\n") if len(arrays["vm"]) else [],
    )


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
class DailyUse:
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

    def plus(self, other: "DailyUse") -> "DailyUse":
        """Both together, with the other's day and name."""
        return DailyUse(
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


def of_day(connection: sa.Connection, day: int) -> tuple[DailyUse, ...]:
    """Everybody's on one day."""
    rows = connection.execute(sa.select(USES).where(USES.c.day == day))
    return tuple(_use(row) for row in rows)


def of_owner(connection: sa.Connection, owner: int, first: int, last: int) -> tuple[DailyUse, ...]:
    """Those that an OpenNebula user's accounts paid for, from the first day to the last."""
    theirs = (ACCOUNTS.c.id == USES.c.account) & (ACCOUNTS.c.owner == owner)
    query = (
        sa.select(USES)
        .select_from(sa.join(USES, ACCOUNTS, theirs))
        .where(USES.c.day.between(first, last))
        .order_by(USES.c.account, USES.c.day, USES.c.vm)
    )
    return tuple(_use(row) for row in connection.execute(query))


def replace_day(connection: sa.Connection, day: int, uses: Iterable[DailyUse]) -> None:
    """These are the uses of the day from now on."""
    connection.execute(sa.delete(USES).where(USES.c.day == day))
    rows = [{name: getattr(use, name) for name in DailyUse.__dataclass_fields__} for use in uses]
    if rows:
        connection.execute(sa.insert(USES), rows)


def _use(row: sa.Row[Any]) -> DailyUse:
    return DailyUse(*(getattr(row, name) for name in DailyUse.__dataclass_fields__))
