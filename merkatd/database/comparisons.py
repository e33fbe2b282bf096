"""Comparisons: where another scheduler placed a VM, and where Merkat would have."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.schema import LONG_TEXT, SERIAL, table

_LONGEST_NAME = 128


class ComparisonColumns(TypedColumns):
    """The columns of `comparisons`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    period: Named[int] = Column(sa.Integer())
    at_s: Named[float] = Column(sa.Double())
    vm: Named[int] = Column(sa.Integer())
    name: Named[str] = Column(sa.String(_LONGEST_NAME))
    theirs: Named[str] = Column(sa.String(_LONGEST_NAME))
    ours: Named[str | None] = Column(sa.String(_LONGEST_NAME))
    why: Named[str] = Column(LONG_TEXT)


COMPARISONS = table("comparisons", ComparisonColumns, sa.Index(None, "period"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One VM that another scheduler placed."""

    period: int
    at_s: float
    vm: int
    name: str
    theirs: str
    """The name of the host it chose,"""
    ours: str | None
    """and of ours; None: it would have waited."""
    why: str
    """Why there, or why it would have waited."""

    @property
    def same(self) -> bool:
        """Whether both chose the same host."""
        return self.theirs == self.ours


def add(connection: sa.Connection, comparisons: list[Comparison]) -> None:
    """Keep them."""
    rows = [
        {
            **{name: getattr(one, name) for name in _NAMES},
            "name": one.name[:_LONGEST_NAME],
            "theirs": one.theirs[:_LONGEST_NAME],
            "ours": one.ours and one.ours[:_LONGEST_NAME],
        }
        for one in comparisons
    ]
    if rows:
        connection.execute(sa.insert(COMPARISONS), rows)


def recent(connection: sa.Connection, limit: int) -> tuple[Comparison, ...]:
    """The newest, newest first."""
    query = sa.select(COMPARISONS).order_by(COMPARISONS.c.id.desc()).limit(limit)
    return tuple(_comparison(row) for row in connection.execute(query))


def agreement(connection: sa.Connection) -> tuple[int, int]:
    """How many VMs were compared, and for how many both chose the same host."""
    same = sa.case((COMPARISONS.c.theirs == COMPARISONS.c.ours, 1), else_=0)
    row = connection.execute(sa.select(sa.func.count(), sa.func.sum(same))).one()
    return int(row[0]), int(row[1] or 0)


def forget(connection: sa.Connection, before: int) -> None:
    """Drop those of periods before this one."""
    connection.execute(sa.delete(COMPARISONS).where(COMPARISONS.c.period < before))


_NAMES = tuple(Comparison.__dataclass_fields__)


def _comparison(row: sa.Row[Any]) -> Comparison:
    return Comparison(**{name: getattr(row, name) for name in _NAMES})
