"""The charges of each VM in a period, and its use and charges by day."""

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
    """The charges of a period, with a row per VM."""

    period: int
    at_s: float
    """The time at which the charges were posted."""
    vm: Ints
    account: Ints
    """[vms]: the account that paid."""
    seconds: Floats
    """[vms]: the charged time."""
    allocation: Floats
    """[vms, resources]: CPU and memory, and also network and disk if one of them was sold."""
    charged: Ints
    """[vms, resources]: charges in micro-credits."""
    names: Sequence[str]


_INSERT = sa.insert(DETAILS)
_HAS_DETAILS = sa.select(DETAILS.c.period).where(DETAILS.c.period == sa.bindparam("number"))


def store(connection: sa.Connection, detail: Detail) -> None:
    """Store the charges of a period."""
    names = "\n".join(name.replace("\n", " ") for name in detail.names).encode()
    data = pack(
        {
            "vm": detail.vm,
            "account": detail.account,
            "seconds": detail.seconds,
            # float32 has seven digits, enough for core-hours; credits are integers.
            "allocation": detail.allocation.astype(np.float32),
            "charged": detail.charged,
            "names": np.frombuffer(names, dtype=np.uint8),
        }
    )
    row = {"period": detail.period, "at_s": detail.at_s, "folded": False, "data": data}
    connection.execute(_INSERT, row)


def has_details(connection: sa.Connection, period: int) -> bool:
    """Return whether details of this period are stored."""
    return connection.scalar(_HAS_DETAILS, {"number": period}) is not None


def load(connection: sa.Connection, period: int) -> Detail | None:
    """Return the details of a period, None if they are missing or deleted."""
    row = connection.execute(sa.select(DETAILS).where(DETAILS.c.period == period)).one_or_none()
    return None if row is None else _detail(row)


def unfolded(connection: sa.Connection, limit: int) -> tuple[Detail, ...]:
    """Return the oldest details that are not yet added to the days."""
    query = sa.select(DETAILS).where(DETAILS.c.folded.is_(False))
    rows = connection.execute(query.order_by(DETAILS.c.period).limit(limit))
    return tuple(_detail(row) for row in rows)


def mark_folded(connection: sa.Connection, last: int) -> None:
    """Mark the details up to this period as added to the days."""
    query = sa.update(DETAILS).where(DETAILS.c.folded.is_(False), DETAILS.c.period <= last)
    connection.execute(query.values(folded=True))


def forget(connection: sa.Connection, before: int) -> None:
    """Delete the details of periods before this one that are added to the days."""
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
        # Earlier versions stored one number for all VMs.
        seconds=np.broadcast_to(arrays["seconds"], len(arrays["vm"])).astype(float),
        allocation=arrays["allocation"].astype(float),
        charged=arrays["charged"],
        names=text.split("\n") if len(arrays["vm"]) else [],
    )


class UseColumns(TypedColumns):
    """The columns of `uses`; the key starts with the account, for statements."""

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
    """The use of a VM on a day or in a month, and the costs that one account paid."""

    account: int
    day: int
    """The day, counted from the epoch."""
    vm: int
    name: str
    seconds: float
    cpu_s: float
    """CPU in percent of a core x seconds."""
    memory_s: float
    """Memory in MiB x seconds."""
    cpu_cost: int
    memory_cost: int
    network_s: float = 0.0
    """Network in Mbit/s x seconds, if sold."""
    disk_s: float = 0.0
    """Disk in MiB/s x seconds, if sold."""
    network_cost: int = 0
    disk_cost: int = 0

    def plus(self, other: "DailyUse") -> "DailyUse":
        """Return the sum of both, with the other's day and name."""
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
    """Return the uses of all VMs on a day."""
    rows = connection.execute(sa.select(USES).where(USES.c.day == day))
    return tuple(_use(row) for row in rows)


def of_owner(connection: sa.Connection, owner: int, first: int, last: int) -> tuple[DailyUse, ...]:
    """Return the uses that a user's accounts paid for, from the first day to the last."""
    theirs = (ACCOUNTS.c.id == USES.c.account) & (ACCOUNTS.c.owner == owner)
    query = (
        sa.select(USES)
        .select_from(sa.join(USES, ACCOUNTS, theirs))
        .where(USES.c.day.between(first, last))
        .order_by(USES.c.account, USES.c.day, USES.c.vm)
    )
    return tuple(_use(row) for row in connection.execute(query))


def replace_day(connection: sa.Connection, day: int, uses: Iterable[DailyUse]) -> None:
    """Replace the uses of a day."""
    connection.execute(sa.delete(USES).where(USES.c.day == day))
    rows = [{name: getattr(use, name) for name in DailyUse.__dataclass_fields__} for use in uses]
    if rows:
        connection.execute(sa.insert(USES), rows)


def _use(row: sa.Row[Any]) -> DailyUse:
    return DailyUse(*(getattr(row, name) for name in DailyUse.__dataclass_fields__))
