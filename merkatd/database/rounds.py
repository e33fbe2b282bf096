"""Rounds: what is done to everybody at once, at intervals, is done once each."""

from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.retrying import LostRaceError
from merkatd.database.schema import table


class RoundKind(StrEnum):
    """What is done."""

    RENEWAL = "renewal"
    REPLENISHMENT = "replenishment"
    SUPPLY = "supply"
    """A look at the supply."""
    RETIREMENT = "retirement"
    """Of one tenant, not of all."""


class RoundColumns(TypedColumns):
    """The columns of `rounds`: when each was done."""

    kind: Named[str] = Column(sa.String(16), primary_key=True)
    number: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    at_s: Named[float] = Column(sa.Double())


ROUNDS = table("rounds", RoundColumns)

_DRIFT_S = 5.0
"""The most by which the clocks of two daemons differ, or one clock while NTP adjusts it."""


def newest(connection: sa.Connection, kind: RoundKind) -> tuple[int, float] | None:
    """The number of the newest round, and when it was done."""
    query = sa.select(ROUNDS.c.number, ROUNDS.c.at_s).where(ROUNDS.c.kind == kind)
    row = connection.execute(query.order_by(ROUNDS.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else (row.number, row.at_s)


def begin(connection: sa.Connection, kind: RoundKind, at_s: float) -> int:
    """The number of a round that is done in this transaction."""
    before = newest(connection, kind)
    number = 1 if before is None else before[0] + 1
    try:
        connection.execute(sa.insert(ROUNDS), {"kind": kind, "number": number, "at_s": at_s})
    except sa.exc.IntegrityError as error:
        raise LostRaceError(f"somebody else did {kind} {number}") from error
    return number


def due(connection: sa.Connection, kind: RoundKind, at_s: float, interval_s: float) -> bool:
    """Whether an interval has passed since the newest round, or there was none.

    A round that is dated an interval ahead was done while the clock was wrong: it stops none now.
    One that is dated less far ahead gets the present date, so the next one is an interval away,
    and not further. Each round takes an interval by which the clock moves, forward or back.
    """
    before = newest(connection, kind)
    if before is None:
        return True
    number, done_s = before
    if done_s - at_s >= interval_s:
        return True
    if done_s - at_s > _DRIFT_S:
        _date(connection, kind, number, at_s)
    return at_s - done_s >= interval_s


def _date(connection: sa.Connection, kind: RoundKind, number: int, at_s: float) -> None:
    one = (ROUNDS.c.kind == kind) & (ROUNDS.c.number == number)
    connection.execute(sa.update(ROUNDS).where(one).values(at_s=at_s))
