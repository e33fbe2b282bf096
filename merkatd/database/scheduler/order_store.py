"""The table of administrators' orders: pause, drained hosts, and the mode.

Every order stays on record with its time and its author. The newest order on a subject applies.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import SERIAL, table

EVERYTHING = -1
"""The subject of the orders to pause and resume."""
HOW = -2
"""The subject of orders about the mode."""
LONGEST_NAME = 64


class Order(StrEnum):
    """The kinds of orders."""

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
    """How much of its decisions the daemon carries out."""

    DRY = "dry"
    SHADOW = "shadow"
    ASK = "ask"
    ON = "on"

    @property
    def watches(self) -> bool:
        """Return whether the daemon does nothing: no step, no limit, no message, no charge."""
        return self in {Mode.DRY, Mode.SHADOW}

    @property
    def order(self) -> Order:
        """Return the order that sets this mode."""
        return Order(f"mode {self}")


_SUBJECTS = {
    Order.PAUSE: EVERYTHING,
    Order.RESUME: EVERYTHING,
    **{Mode(mode).order: HOW for mode in Mode},
    Order.MODE_CONFIGURED: HOW,
}
"""The subjects of orders that are not about a host."""
_MODES = {mode.order: mode for mode in Mode}


class OrderColumns(TypedColumns):
    """The columns of `orders`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    at_s: Named[float] = Column(sa.Double())
    what: Named[str] = Column(sa.String(16))
    host: Named[int] = Column(sa.Integer())
    who: Named[str] = Column(sa.String(LONGEST_NAME))
    origin: Named[str] = Column(sa.String(LONGEST_NAME), server_default="")


ORDERS = table("orders", OrderColumns, sa.Index(None, "host"))
_NEWEST = sa.select(ORDERS).where(
    ORDERS.c.id.in_(sa.select(sa.func.max(ORDERS.c.id)).group_by(ORDERS.c.host))
)


@dataclass(frozen=True, slots=True)
class StoredOrder:
    """An order on record."""

    what: Order
    host: int | None
    at_s: float
    who: str
    origin: str = ""
    """Where it came from: the interface and the address; empty if that is not known."""


def record_order(
    connection: sa.Connection,
    what: Order,
    at_s: float,
    who: str,
    host: int | None,
    origin: str = "",
) -> bool:
    """Store an order and return True; return False if it applies already."""
    if (host is None) != (what in _SUBJECTS):
        raise ValueError(
            f"{what} is an order {'about a host' if host is None else 'without a host'}"
        )
    subject = _SUBJECTS[what] if host is None else host
    newest = _newest(connection).get(subject)
    if what is (newest.what if newest else _WITHOUT.get(what, Order.MODE_CONFIGURED)):
        return False
    row = {"at_s": at_s, "what": what, "host": subject, "who": who[:LONGEST_NAME]}
    row["origin"] = origin[:LONGEST_NAME]
    connection.execute(sa.insert(ORDERS), row)
    return True


_WITHOUT = {
    Order.PAUSE: Order.RESUME,
    Order.RESUME: Order.RESUME,
    Order.DRAIN: Order.UNDRAIN,
    Order.UNDRAIN: Order.UNDRAIN,
}
"""The order that applies by default, for each order; modes default to the configured one."""
_DEFAULTS = frozenset({*_WITHOUT.values(), Order.MODE_CONFIGURED})


@dataclass(frozen=True, slots=True)
class OrdersInForce:
    """The orders that apply now."""

    paused: bool = False
    drained: frozenset[int] = frozenset()
    """Ids of drained hosts."""
    mode: Mode | None = None
    """The ordered mode; None: as configured."""


def in_force(connection: sa.Connection) -> OrdersInForce:
    """Return the orders that apply now."""
    newest = _newest(connection)
    for_all, how = newest.get(EVERYTHING), newest.get(HOW)
    return OrdersInForce(
        paused=for_all is not None and for_all.what is Order.PAUSE,
        drained=frozenset(host for host, given in newest.items() if given.what is Order.DRAIN),
        mode=None if how is None else _MODES.get(how.what),
    )


def orders_in_force(connection: sa.Connection) -> tuple[StoredOrder, ...]:
    """Return the orders that change something now, oldest first."""
    newest = sorted(_newest(connection).values(), key=lambda order: order.at_s)
    return tuple(order for order in newest if order.what not in _DEFAULTS)


def history(
    connection: sa.Connection,
    limit: int = 50,
    kinds: Collection[Order] | None = None,
    since_s: float = 0.0,
    host: int | None = None,
) -> tuple[StoredOrder, ...]:
    """Return the newest orders of these kinds, since a time, about a host, newest first."""
    query = sa.select(ORDERS).where(ORDERS.c.at_s >= since_s)
    if kinds is not None:
        query = query.where(ORDERS.c.what.in_(sorted(kinds)))
    if host is not None:
        query = query.where(ORDERS.c.host == host)
    query = query.order_by(ORDERS.c.id.desc()).limit(limit)
    return tuple(_given(row) for row in connection.execute(query))


def _newest(connection: sa.Connection) -> dict[int, StoredOrder]:
    """Return the newest order of each subject."""
    return {row.host: _given(row) for row in connection.execute(_NEWEST)}


def _given(row: sa.Row[Any]) -> StoredOrder:
    host = None if row.host in {EVERYTHING, HOW} else row.host
    return StoredOrder(Order(row.what), host, row.at_s, row.who, row.origin)
