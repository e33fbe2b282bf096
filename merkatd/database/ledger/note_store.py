"""Notes about actions of administrators and policies on money, and rounds of regular actions."""

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import LONG_TEXT, SERIAL, table
from merkatd.database.base.transactions import LostRaceError


class NoteKind(StrEnum):
    """The kind of action."""

    SUPPLY = "supply"
    RENEWAL = "renewal"
    WEIGHT = "weight"
    GRANT = "grant"
    BUDGET = "budget"
    VOID = "void"
    RETIREMENT = "retirement"


class NoteColumns(TypedColumns):
    """The columns of `notes`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    at_s: Named[float] = Column(sa.Double())
    kind: Named[str] = Column(sa.String(16))
    who: Named[str] = Column(sa.String(128))
    owner: Named[int | None] = Column(sa.Integer())
    text: Named[str] = Column(LONG_TEXT)


NOTES = table("notes", NoteColumns, sa.Index(None, "kind", "at_s"), sa.Index(None, "owner"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note about an action."""

    at_s: float
    kind: NoteKind
    who: str
    """The author of the action, as text."""
    owner: int | None = None
    """The tenant that the action concerns, if any."""
    text: str


def add(connection: sa.Connection, note: Note) -> None:
    """Store a note, in the transaction of its action."""
    row = {
        "at_s": note.at_s,
        "kind": note.kind,
        "who": note.who,
        "owner": note.owner,
        "text": note.text,
    }
    connection.execute(sa.insert(NOTES), row)


def recent(
    connection: sa.Connection,
    limit: int = 50,
    *,
    kind: NoteKind | None = None,
    owner: int | None = None,
    since_s: float | None = None,
) -> tuple[Note, ...]:
    """Return the newest notes, newest first."""
    query = sa.select(NOTES).order_by(NOTES.c.id.desc()).limit(limit)
    if kind is not None:
        query = query.where(NOTES.c.kind == kind)
    if owner is not None:
        query = query.where(NOTES.c.owner == owner)
    if since_s is not None:
        query = query.where(NOTES.c.at_s >= since_s)
    return tuple(
        Note(at_s=row.at_s, kind=NoteKind(row.kind), who=row.who, owner=row.owner, text=row.text)
        for row in connection.execute(query)
    )


class RoundKind(StrEnum):
    """The kind of regular action."""

    RENEWAL = "renewal"
    REPLENISHMENT = "replenishment"
    SUPPLY = "supply"
    """A check of the supply."""
    RETIREMENT = "retirement"
    """The retirement of one tenant."""


class RoundColumns(TypedColumns):
    """The columns of `rounds`."""

    kind: Named[str] = Column(sa.String(16), primary_key=True)
    number: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    at_s: Named[float] = Column(sa.Double())


ROUNDS = table("rounds", RoundColumns)
_NEWEST_ROUND = (
    sa.select(ROUNDS.c.number, ROUNDS.c.at_s)
    .where(ROUNDS.c.kind == sa.bindparam("its_kind"))
    .order_by(ROUNDS.c.number.desc())
    .limit(1)
)
_INSERT_ROUND = sa.insert(ROUNDS)
_DRIFT_S = 5.0
"""Tolerated difference between two daemons' clocks, or of one clock that NTP adjusts."""


def newest(connection: sa.Connection, kind: RoundKind) -> tuple[int, float] | None:
    """Return number and time of the newest round of this kind."""
    row = connection.execute(_NEWEST_ROUND, {"its_kind": kind}).one_or_none()
    return None if row is None else (row.number, row.at_s)


def begin_round(connection: sa.Connection, kind: RoundKind, at_s: float) -> int:
    """Store a new round, which takes place in this transaction, and return its number."""
    before = newest(connection, kind)
    number = 1 if before is None else before[0] + 1
    try:
        connection.execute(_INSERT_ROUND, {"kind": kind, "number": number, "at_s": at_s})
    except sa.exc.IntegrityError as error:
        raise LostRaceError(f"another transaction stored {kind} {number} first") from error
    return number


def round_due(connection: sa.Connection, kind: RoundKind, at_s: float, interval_s: float) -> bool:
    """Return whether an interval has passed since the newest round, or there was none.

    A round dated an interval or more ahead was stored while the clock was wrong: one is due now.
    A round dated less far ahead gets the present date, so that the next one is at most an interval
    away. So a clock that jumps, forward or back, shifts rounds by at most an interval.
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
    same = (ROUNDS.c.kind == kind) & (ROUNDS.c.number == number)
    connection.execute(sa.update(ROUNDS).where(same).values(at_s=at_s))
