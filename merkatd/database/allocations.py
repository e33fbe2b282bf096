"""Allocations: what everybody got in a period, one compressed blob a period."""

from typing import Any

import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.blobs import Arrays, pack, unpack
from merkatd.database.schema import LONG_BLOB, table


class AllocationColumns(TypedColumns):
    """The columns of `allocations`."""

    period: Named[int] = Column(
        sa.Integer(), sa.ForeignKey("periods.number"), primary_key=True, autoincrement=False
    )
    data: Named[bytes] = Column(LONG_BLOB)


ALLOCATIONS = table("allocations", AllocationColumns)


def store(connection: sa.Connection, period: int, arrays: Arrays) -> None:
    """Keep the arrays of a period, rows in the order in which they are given.

    In place of those that it had.
    """
    connection.execute(sa.delete(ALLOCATIONS).where(ALLOCATIONS.c.period == period))
    connection.execute(sa.insert(ALLOCATIONS), {"period": period, "data": pack(arrays)})


def load(connection: sa.Connection, period: int) -> dict[str, npt.NDArray[Any]] | None:
    """The arrays of a period; None where it has none or they were forgotten."""
    data = connection.scalar(sa.select(ALLOCATIONS.c.data).where(ALLOCATIONS.c.period == period))
    return None if data is None else unpack(data)


def newest(connection: sa.Connection) -> int | None:
    """The number of the newest period that has any."""
    return connection.scalar(sa.select(sa.func.max(ALLOCATIONS.c.period)))
