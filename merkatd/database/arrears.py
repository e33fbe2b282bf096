"""Arrears: for how many periods on end a VM has not paid for its floor."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.schema import table


class ArrearsColumns(TypedColumns):
    """The columns of `arrears`; VMs that pay have no row."""

    vm: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    periods: Named[int] = Column(sa.Integer())


ARREARS = table("arrears", ArrearsColumns)


def load(connection: sa.Connection) -> dict[int, int]:
    """By VM."""
    rows = connection.execute(sa.select(ARREARS.c.vm, ARREARS.c.periods))
    return {vm: count for vm, count in rows}  # noqa: C416 - rows are no pairs to mypy


def replace(connection: sa.Connection, counts: Mapping[int, int]) -> None:
    """These and no others from now on."""
    if load(connection) == dict(counts):
        return
    connection.execute(sa.delete(ARREARS))
    if counts:
        rows = [{"vm": vm, "periods": count} for vm, count in sorted(counts.items())]
        connection.execute(sa.insert(ARREARS), rows)
