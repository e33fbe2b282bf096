"""Doings: what was done to platforms, by whom and why; a controller's action is taken once."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.retrying import LostRaceError
from merkatd.database.schema import LONG_TEXT, SERIAL, table


class DoingColumns(TypedColumns):
    """The columns of `platform_doings`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    platform: Named[int] = Column(sa.BigInteger(), sa.ForeignKey("platforms.id"))
    at_s: Named[float] = Column(sa.Double())
    who: Named[str] = Column(sa.String(128))
    what: Named[str] = Column(sa.String(16))
    text: Named[str] = Column(LONG_TEXT)
    action: Named[str | None] = Column(sa.String(64))
    refused: Named[bool] = Column(sa.Boolean())


DOINGS = table(
    "platform_doings",
    DoingColumns,
    # NULLs are not equal to each other: what no controller asked for claims no id.
    sa.UniqueConstraint("platform", "action"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """One thing that was done, or refused."""

    platform: int
    at_s: float
    who: str
    what: str
    text: str
    """Why; where it was refused, why that."""
    action: str | None = None
    """The controller's own id of it."""
    refused: bool = False


def add(connection: sa.Connection, doing: Doing) -> None:
    """Write it down, in the transaction in which it is done."""
    row = {name: getattr(doing, name) for name in _NAMES}
    try:
        connection.execute(sa.insert(DOINGS), row)
    except sa.exc.IntegrityError as error:
        raise LostRaceError(f"action {doing.action} was taken by somebody else") from error


def replace(connection: sa.Connection, doing: Doing) -> None:
    """Write it down instead of the last one of its kind: of what repeats, the newest is kept."""
    connection.execute(
        sa.delete(DOINGS).where(
            DOINGS.c.platform == doing.platform,
            DOINGS.c.what == doing.what,
            DOINGS.c.refused.is_(False),
        )
    )
    add(connection, doing)


def taken(connection: sa.Connection, platform: int, action: str) -> Doing | None:
    """What became of an action, if it was taken before."""
    query = sa.select(DOINGS).where(DOINGS.c.platform == platform, DOINGS.c.action == action)
    return next((_doing(row) for row in connection.execute(query)), None)


def recent(connection: sa.Connection, platform: int, limit: int = 20) -> tuple[Doing, ...]:
    """The newest, newest first."""
    query = sa.select(DOINGS).where(DOINGS.c.platform == platform)
    rows = connection.execute(query.order_by(DOINGS.c.id.desc()).limit(limit))
    return tuple(_doing(row) for row in rows)


_NAMES = ("platform", "at_s", "who", "what", "text", "action", "refused")


def _doing(row: sa.Row[Any]) -> Doing:
    return Doing(**{name: getattr(row, name) for name in _NAMES})
