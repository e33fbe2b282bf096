"""Notes: what administrators and policies did with money, when, and why; none is ever changed."""

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.schema import LONG_TEXT, SERIAL, table


class NoteKind(StrEnum):
    """What was done."""

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
    """One thing that was done."""

    at_s: float
    kind: NoteKind
    who: str
    """Who did it, in words."""
    owner: int | None = None
    """The tenant it concerns."""
    text: str


def add(connection: sa.Connection, note: Note) -> None:
    """Write it down, in the transaction in which it is done."""
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
    """The newest notes, newest first."""
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
