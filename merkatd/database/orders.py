"""Orders: what administrators told the daemon to keep to, until they tell it otherwise.

Every order stays on record with its time and who gave it; the newest one on a subject holds.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.schema import SERIAL, table

EVERYTHING = -1
"""The subject of orders that are about no single host."""
LONGEST_NAME = 64


class Order(StrEnum):
    """What can be ordered."""

    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    UNDRAIN = "undrain"


_OF_HOSTS = (Order.DRAIN, Order.UNDRAIN)
_OF_EVERYTHING = (Order.PAUSE, Order.RESUME)


class OrderColumns(TypedColumns):
    """The columns of `orders`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    at_s: Named[float] = Column(sa.Double())
    what: Named[str] = Column(sa.String(16))
    host: Named[int] = Column(sa.Integer())
    who: Named[str] = Column(sa.String(LONGEST_NAME))


ORDERS = table("orders", OrderColumns, sa.Index(None, "host"))


@dataclass(frozen=True, slots=True)
class Given:
    """An order on record."""

    what: Order
    host: int | None
    at_s: float
    who: str


def give(connection: sa.Connection, what: Order, at_s: float, who: str, host: int | None) -> bool:
    """Put an order on record; False where it holds already, and nothing is recorded."""
    if (host is None) != (what in _OF_EVERYTHING):
        raise ValueError(f"{what} is an order about {'a host' if host is None else 'everything'}")
    subject = EVERYTHING if host is None else host
    newest = _newest(connection).get(subject)
    if what is (newest.what if newest else _WITHOUT[what]):
        return False
    row = {"at_s": at_s, "what": what, "host": subject, "who": who[:LONGEST_NAME]}
    connection.execute(sa.insert(ORDERS), row)
    return True


_WITHOUT = {
    Order.PAUSE: Order.RESUME,
    Order.RESUME: Order.RESUME,
    Order.DRAIN: Order.UNDRAIN,
    Order.UNDRAIN: Order.UNDRAIN,
}
"""By order: what holds as long as nobody said anything."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What holds now."""

    paused: bool = False
    drained: frozenset[int] = frozenset()
    """Ids of hosts."""


def in_force(connection: sa.Connection) -> InForce:
    """What the newest orders amount to."""
    newest = _newest(connection)
    whole = newest.get(EVERYTHING)
    return InForce(
        paused=whole is not None and whole.what is Order.PAUSE,
        drained=frozenset(host for host, given in newest.items() if given.what is Order.DRAIN),
    )


def history(connection: sa.Connection, limit: int = 50) -> tuple[Given, ...]:
    """The orders on record, the newest first."""
    query = sa.select(ORDERS).order_by(ORDERS.c.id.desc()).limit(limit)
    return tuple(_given(row) for row in connection.execute(query))


def _newest(connection: sa.Connection) -> dict[int, Given]:
    """By subject."""
    ids = sa.select(sa.func.max(ORDERS.c.id)).group_by(ORDERS.c.host)
    rows = connection.execute(sa.select(ORDERS).where(ORDERS.c.id.in_(ids)))
    return {row.host: _given(row) for row in rows}


def _given(row: sa.Row[Any]) -> Given:
    host = None if row.host == EVERYTHING else row.host
    return Given(Order(row.what), host, row.at_s, row.who)
