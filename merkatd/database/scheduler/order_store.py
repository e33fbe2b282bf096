"""Orders: what administrators told the daemon to keep to, until they tell it otherwise.

Every order stays on record with its time and who gave it; the newest one on a subject holds.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import SERIAL, table

EVERYTHING = -1
"""The subject of orders that are about no single host,"""
HOW = -2
"""and of those that say how much is done at all."""
LONGEST_NAME = 64


class Order(StrEnum):
    """What can be ordered."""

    PAUSE = "pause"
    RESUME = "resume"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    MODE_DRY = "mode dry"
    MODE_SHADOW = "mode shadow"
    MODE_ASK = "mode ask"
    MODE_ON = "mode on"
    MODE_CONFIGURED = "mode configured"


class Mode(StrEnum):
    """How much of what is decided is done."""

    DRY = "dry"
    SHADOW = "shadow"
    ASK = "ask"
    ON = "on"

    @property
    def watches(self) -> bool:
        """Whether nothing at all is done: no step, no limit, no message, no charge."""
        return self in {Mode.DRY, Mode.SHADOW}

    @property
    def order(self) -> Order:
        """The order to be so from now on."""
        return Order(f"mode {self}")


_SUBJECTS = {
    Order.PAUSE: EVERYTHING,
    Order.RESUME: EVERYTHING,
    **{Mode(one).order: HOW for one in Mode},
    Order.MODE_CONFIGURED: HOW,
}
"""Of the orders that are about no single host."""
_MODES = {mode.order: mode for mode in Mode}


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


def record_order(
    connection: sa.Connection, what: Order, at_s: float, who: str, host: int | None
) -> bool:
    """Put an order on record; False where it holds already, and nothing is recorded."""
    if (host is None) != (what in _SUBJECTS):
        raise ValueError(f"{what} is an order about {'a host' if host is None else 'everything'}")
    subject = _SUBJECTS[what] if host is None else host
    newest = _newest(connection).get(subject)
    if what is (newest.what if newest else _WITHOUT.get(what, Order.MODE_CONFIGURED)):
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
"""By order: what holds as long as nobody said anything; of modes that is the configured one."""


@dataclass(frozen=True, slots=True)
class OrdersInForce:
    """What holds now."""

    paused: bool = False
    drained: frozenset[int] = frozenset()
    """Ids of hosts."""
    mode: Mode | None = None
    """None: as configured."""


def in_force(connection: sa.Connection) -> OrdersInForce:
    """What the newest orders amount to."""
    newest = _newest(connection)
    whole, how = newest.get(EVERYTHING), newest.get(HOW)
    return OrdersInForce(
        paused=whole is not None and whole.what is Order.PAUSE,
        drained=frozenset(host for host, given in newest.items() if given.what is Order.DRAIN),
        mode=None if how is None else _MODES.get(how.what),
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
    host = None if row.host in {EVERYTHING, HOW} else row.host
    return Given(Order(row.what), host, row.at_s, row.who)
