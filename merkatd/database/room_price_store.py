"""The table of the prices of room: what one more limit order would have had to pay.

Quotes of limit orders compute their odds from it. A row has the prices of one good of a market in a
period, for each size in `PARTS` (`merkatd.market.odds.room_prices.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import table
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.market.odds.room_prices import PARTS, RoomPrices

_STORED = np.dtype("<f8")
_BYTES = len(PARTS) * _STORED.itemsize


class RoomPriceColumns(TypedColumns):
    """The columns of `room_prices`."""

    period: Named[int] = Column(
        sa.Integer(), sa.ForeignKey("periods.number"), primary_key=True, autoincrement=False
    )
    market: Named[str] = Column(sa.String(64), primary_key=True)
    resource: Named[str] = Column(sa.String(32), primary_key=True)
    capacity: Named[float] = Column(sa.Double())
    weight: Named[float] = Column(sa.Double())
    reserve: Named[float] = Column(sa.Double())
    prices: Named[bytes] = Column(sa.LargeBinary())


ROOM_PRICES = table("room_prices", RoomPriceColumns, sa.Index(None, "market", "period"))


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRooms:
    """The recorded prices of room of a market, oldest first."""

    started_s: Sequence[float]
    """[moments]: the start of each recorded period."""
    rooms: RoomPrices


def store_rooms(
    connection: sa.Connection,
    period: int,
    market: str,
    resources: Sequence[str],
    rooms: RoomPrices,
) -> None:
    """Store the prices of room of a market in a period: `rooms` has this one moment."""
    rows = [
        {
            "period": period,
            "market": market,
            "resource": resource,
            "capacity": rooms.capacity.item(0, good),
            "weight": rooms.weight.item(0, good),
            "reserve": rooms.reserve.item(0, good),
            "prices": np.ascontiguousarray(rooms.price[0, good], dtype=_STORED).tobytes(),
        }
        for good, resource in enumerate(resources)
    ]
    if rows:
        connection.execute(sa.insert(ROOM_PRICES), rows)


def load_rooms(
    connection: sa.Connection, market: str, resources: Sequence[str], most: int
) -> RecordedRooms:
    """Return the newest `most` moments in which all these goods were sold, oldest first."""
    by_period: dict[int, dict[str, Any]] = {}
    query = (
        sa.select(
            ROOM_PRICES.c.period,
            PERIODS.c.started_s,
            ROOM_PRICES.c.resource,
            ROOM_PRICES.c.capacity,
            ROOM_PRICES.c.weight,
            ROOM_PRICES.c.reserve,
            ROOM_PRICES.c.prices,
        )
        .join(PERIODS, PERIODS.c.number == ROOM_PRICES.c.period)
        .where(ROOM_PRICES.c.market == market, ROOM_PRICES.c.resource.in_(resources))
        .order_by(ROOM_PRICES.c.period.desc())
        .limit(most * len(resources))
    )
    for row in connection.execute(query):
        by_period.setdefault(row.period, {})[row.resource] = row
    moments = [
        [goods[name] for name in resources]
        for _, goods in sorted(by_period.items())
        if goods.keys() == set(resources) and all(len(g.prices) == _BYTES for g in goods.values())
    ]
    shape = (len(moments), len(resources))
    stored = b"".join(row.prices for goods in moments for row in goods)
    return RecordedRooms(
        [goods[0].started_s for goods in moments],
        RoomPrices(
            np.array([[row.capacity for row in goods] for goods in moments]).reshape(shape),
            np.array([[row.weight for row in goods] for goods in moments]).reshape(shape),
            np.array([[row.reserve for row in goods] for goods in moments]).reshape(shape),
            np.frombuffer(stored, dtype=_STORED).reshape(*shape, len(PARTS)),
        ),
    )
