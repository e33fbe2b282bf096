"""Arrears: for how many intervals an owner has not paid in full."""

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.schema import chunks, table


class ArrearsColumns(TypedColumns):
    """The columns of `arrears`; owners without debt have no row."""

    owner: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    periods: Named[float] = Column(sa.Double())
    """Intervals, of which a short period is a part."""


ARREARS = table("arrears", ArrearsColumns)


def load(connection: sa.Connection) -> dict[int, float]:
    """By owner."""
    rows = connection.execute(sa.select(ARREARS.c.owner, ARREARS.c.periods))
    return {owner: count for owner, count in rows}  # noqa: C416 - rows are no pairs to mypy


def replace(connection: sa.Connection, counts: Mapping[int, float]) -> None:
    """Keep these counts and no others from now on."""
    if load(connection) == dict(counts):
        return
    connection.execute(sa.delete(ARREARS))
    if counts:
        rows = [{"owner": owner, "periods": count} for owner, count in sorted(counts.items())]
        connection.execute(sa.insert(ARREARS), rows)


def forget(connection: sa.Connection, owners: Iterable[int]) -> None:
    """Drop the counts of these owners."""
    for some in chunks(sorted(set(owners))):
        connection.execute(sa.delete(ARREARS).where(ARREARS.c.owner.in_(some)))
