"""Comparisons: where another scheduler placed or moved a VM, and where Merkat would have."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import LONG_TEXT, SERIAL, table

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
    source: Named[str | None] = Column(sa.String(_LONGEST_NAME))


COMPARISONS = table("comparisons", ComparisonColumns, sa.Index(None, "period"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One VM that another scheduler placed or moved, or that we would have moved."""

    period: int
    at_s: float
    vm: int
    name: str
    theirs: str
    """The name of the host it chose, or on which it left the VM,"""
    ours: str | None
    """and of ours; None: it would have waited."""
    why: str
    """Why there, or why it would have waited."""
    source: str | None = None
    """The host that it was on before; None where it was placed."""

    @property
    def same(self) -> bool:
        """Whether both chose the same host."""
        return self.theirs == self.ours


def add(connection: sa.Connection, comparisons: list[Comparison]) -> None:
    """Keep them, once for each VM and look."""
    same = sa.select(COMPARISONS.c.vm, COMPARISONS.c.at_s)
    same = same.where(COMPARISONS.c.period.in_({one.period for one in comparisons}))
    known = {(vm, at_s) for vm, at_s in connection.execute(same)} if comparisons else set()
    rows = [
        {
            **{name: getattr(one, name) for name in _NAMES},
            "name": one.name[:_LONGEST_NAME],
            "theirs": one.theirs[:_LONGEST_NAME],
            "ours": one.ours and one.ours[:_LONGEST_NAME],
            "source": one.source and one.source[:_LONGEST_NAME],
        }
        for one in comparisons
        if (one.vm, one.at_s) not in known
    ]
    if rows:
        connection.execute(sa.insert(COMPARISONS), rows)


def recent(connection: sa.Connection, limit: int) -> tuple[Comparison, ...]:
    """The newest, newest first."""
    query = sa.select(COMPARISONS).order_by(COMPARISONS.c.id.desc()).limit(limit)
    return tuple(_comparison(row) for row in connection.execute(query))


class Agreement(NamedTuple):
    """How often two schedulers did the same."""

    placed: int
    """VMs that the other one placed,"""
    placed_alike: int
    """and those of them for which both chose the same host."""
    moved: int
    """Moves of the other one's,"""
    moved_alike: int
    """and those of them that were ours too."""
    ours_alone: int
    """Moves that only we would have made."""


def agreement(connection: sa.Connection) -> Agreement:
    """Of all that was compared and is kept."""
    source, theirs = COMPARISONS.c.source, COMPARISONS.c.theirs
    same = theirs == COMPARISONS.c.ours
    query = sa.select(
        *(
            sa.func.sum(sa.case((condition, 1), else_=0))
            for condition in (
                source.is_(None),
                sa.and_(source.is_(None), same),
                sa.and_(source.is_not(None), theirs != source),
                sa.and_(source.is_not(None), theirs != source, same),
                sa.and_(source.is_not(None), theirs == source),
            )
        )
    )
    return Agreement(*(int(number or 0) for number in connection.execute(query).one()))


_NAMES = tuple(Comparison.__dataclass_fields__)


def _comparison(row: sa.Row[Any]) -> Comparison:
    return Comparison(**{name: getattr(row, name) for name in _NAMES})
