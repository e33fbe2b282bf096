"""Details: what each VM was charged in a period, one compressed row a period."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.cluster import Floats, Ints
from merkatd.database.blobs import pack, unpack
from merkatd.database.schema import LONG_BLOB, table


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


def known(connection: sa.Connection, period: int) -> bool:
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
