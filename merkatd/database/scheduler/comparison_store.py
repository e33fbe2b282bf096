"""The table of comparisons between another scheduler's choice of a host and Merkat's."""

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
    """A VM that another scheduler placed or moved, or that Merkat would have moved."""

    period: int
    at_s: float
    vm: int
    name: str
    theirs: str
    """The name of the host that the other scheduler chose, or on which it left the VM."""
    ours: str | None
    """The name of the host that Merkat chose; None: the VM would have waited."""
    why: str
    """Merkat's reason for its host, or for the wait."""
    source: str | None = None
    """The VM's earlier host; None for a new placement."""

    @property
    def same(self) -> bool:
        """Return whether both chose the same host."""
        return self.theirs == self.ours


def add(connection: sa.Connection, comparisons: list[Comparison]) -> None:
    """Store comparisons, once per VM and observation."""
    same = sa.select(COMPARISONS.c.vm, COMPARISONS.c.at_s)
    same = same.where(COMPARISONS.c.period.in_({comparison.period for comparison in comparisons}))
    known = {(vm, at_s) for vm, at_s in connection.execute(same)} if comparisons else set()
    rows = [
        {
            **{name: getattr(comparison, name) for name in _NAMES},
            "name": comparison.name[:_LONGEST_NAME],
            "theirs": comparison.theirs[:_LONGEST_NAME],
            "ours": comparison.ours and comparison.ours[:_LONGEST_NAME],
            "source": comparison.source and comparison.source[:_LONGEST_NAME],
        }
        for comparison in comparisons
        if (comparison.vm, comparison.at_s) not in known
    ]
    if rows:
        connection.execute(sa.insert(COMPARISONS), rows)


def recent(connection: sa.Connection, limit: int) -> tuple[Comparison, ...]:
    """Return the newest comparisons, newest first."""
    query = sa.select(COMPARISONS).order_by(COMPARISONS.c.id.desc()).limit(limit)
    return tuple(_comparison(row) for row in connection.execute(query))


class Agreement(NamedTuple):
    """Counts of equal and different choices of the two schedulers."""

    placed: int
    """VMs that the other scheduler placed."""
    placed_alike: int
    """Placed VMs for which both chose the same host."""
    moved: int
    """VMs that the other scheduler moved."""
    moved_alike: int
    """Moved VMs for which both chose the same host."""
    ours_alone: int
    """VMs that only Merkat would have moved."""


def agreement(connection: sa.Connection) -> Agreement:
    """Return the agreement over all stored comparisons."""
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
