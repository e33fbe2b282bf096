"""The tables of prices and allocations of each period."""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.currency.credits import DAY_S
from merkatd.database.base.schema import LONG_BLOB, Arrays, pack, table, unpack
from merkatd.database.scheduler.period_store import PERIODS


class AllocationColumns(TypedColumns):
    """The columns of `allocations`."""

    period: Named[int] = Column(
        sa.Integer(), sa.ForeignKey("periods.number"), primary_key=True, autoincrement=False
    )
    data: Named[bytes] = Column(LONG_BLOB)


ALLOCATIONS = table("allocations", AllocationColumns)
_LOAD = sa.select(ALLOCATIONS.c.data).where(ALLOCATIONS.c.period == sa.bindparam("its_period"))
_DELETE = sa.delete(ALLOCATIONS).where(ALLOCATIONS.c.period == sa.bindparam("its_period"))
_INSERT = sa.insert(ALLOCATIONS)
_NEWEST = sa.select(sa.func.max(ALLOCATIONS.c.period))


def store_allocations(connection: sa.Connection, period: int, arrays: Arrays) -> None:
    """Store the arrays of a period, in place of earlier ones."""
    connection.execute(_DELETE, {"its_period": period})
    connection.execute(_INSERT, {"period": period, "data": pack(arrays)})


def load_allocations(connection: sa.Connection, period: int) -> dict[str, npt.NDArray[Any]] | None:
    """Return the arrays of a period, None if they are missing or deleted."""
    data = connection.scalar(_LOAD, {"its_period": period})
    return None if data is None else unpack(data)


def newest(connection: sa.Connection) -> int | None:
    """Return the number of the newest period with allocations."""
    return connection.scalar(_NEWEST)


Prices = Mapping[str, Mapping[str, float]]
"""Credits per unit and period, by market and resource."""


class PriceColumns(TypedColumns):
    """The columns of `prices`."""

    period: Named[int] = Column(
        sa.Integer(), sa.ForeignKey("periods.number"), primary_key=True, autoincrement=False
    )
    market: Named[str] = Column(sa.String(64), primary_key=True)
    resource: Named[str] = Column(sa.String(32), primary_key=True)
    price: Named[float | None] = Column(sa.Double())


PRICES = table("prices", PriceColumns, sa.Index(None, "market", "period"))
_INSERT_PRICES = sa.insert(PRICES)
_OF_PERIOD = sa.select(PRICES.c.market, PRICES.c.resource, PRICES.c.price).where(
    PRICES.c.period == sa.bindparam("its_period")
)
_HISTORY = (
    sa.select(PRICES.c.period, PERIODS.c.started_s, PRICES.c.resource, PRICES.c.price)
    .join(PERIODS, PERIODS.c.number == PRICES.c.period)
    .where(
        PRICES.c.market == sa.bindparam("its_market"),
        PERIODS.c.started_s >= sa.bindparam("since_s"),
    )
    .order_by(PRICES.c.period.desc(), PRICES.c.resource.desc())
    .limit(sa.bindparam("most"))
)


_SPACED = (
    sa.select(PRICES.c.period, PERIODS.c.started_s, PRICES.c.resource, PRICES.c.price)
    .join(PERIODS, PERIODS.c.number == PRICES.c.period)
    .where(
        PRICES.c.market == sa.bindparam("its_market"),
        PRICES.c.period.in_(sa.bindparam("its_periods", expanding=True)),
    )
    .order_by(PRICES.c.period, PRICES.c.resource)
)


_MINUTE_S = 60.0
_NEARLY = 0.9
"""The part of an interval that counts as a whole one: real intervals differ."""


@dataclass(frozen=True, slots=True)
class PricePoint:
    """The price of a resource of a market in a period."""

    period: int
    started_s: float
    resource: str
    price: float


def store_prices(connection: sa.Connection, period: int, prices: Prices) -> None:
    """Store a period's prices; a price is infinite if no price clears."""
    rows = [
        {"period": period, "market": market, "resource": resource, "price": _stored(price)}
        for market, by_resource in prices.items()
        for resource, price in by_resource.items()
    ]
    if rows:
        connection.execute(_INSERT_PRICES, rows)


def load_prices(connection: sa.Connection, period: int) -> dict[str, dict[str, float]]:
    """Return the prices of a period by market and resource."""
    prices: dict[str, dict[str, float]] = {}
    for market, resource, price in connection.execute(_OF_PERIOD, {"its_period": period}):
        prices.setdefault(market, {})[resource] = _loaded(price)
    return prices


def history(
    connection: sa.Connection, market: str, since_s: float, limit: int = 10_000
) -> tuple[PricePoint, ...]:
    """Return the newest prices of a market in periods started since then, oldest first."""
    wanted = {"its_market": market, "since_s": since_s, "most": limit}
    rows = connection.execute(_HISTORY, wanted).all()
    return tuple(PricePoint(p, at_s, name, _loaded(x)) for p, at_s, name, x in reversed(rows))


def of_periods(
    connection: sa.Connection, market: str, periods: Sequence[int]
) -> tuple[PricePoint, ...]:
    """Return the prices of a market in these periods, oldest first."""
    rows = connection.execute(_SPACED, {"its_market": market, "its_periods": list(periods)})
    return tuple(PricePoint(p, at_s, name, _loaded(x)) for p, at_s, name, x in rows)


def spaced(points: Sequence[PricePoint], each_s: float) -> list[PricePoint]:
    """Return the points of the newest period, and of periods `each_s` apart before it.

    `points` are ordered, oldest first. Periods that began early are left out: an account could
    start them while the price suits it, so that this price counts more than once.
    """
    kept = _spaced((point.started_s for point in points), each_s)
    return [point for point in points if point.started_s in kept]


def _spaced(started_s: Iterable[float], each_s: float) -> AbstractSet[float]:
    """Return the newest of these times, and those of the others that are `each_s` apart."""
    kept: list[float] = []
    for time_s in sorted(started_s, reverse=True):
        if not kept or kept[-1] - time_s >= each_s * _NEARLY:
            kept.append(time_s)
    return frozenset(kept)


def daily(
    connection: sa.Connection, since_s: float, until_s: float
) -> list[dict[tuple[str, str], float]]:
    """Return the average prices of each day in between that had periods, oldest first.

    Only periods that are a minute apart count, as in `spaced`.
    """
    query = (
        sa.select(PERIODS.c.started_s, PRICES.c.market, PRICES.c.resource, PRICES.c.price)
        .join(PERIODS, PERIODS.c.number == PRICES.c.period)
        .where(PERIODS.c.started_s >= since_s, PERIODS.c.started_s < until_s)
        .where(PRICES.c.price.is_not(None))
    )
    days: dict[int, dict[tuple[str, str], list[float]]] = {}
    rows = connection.execute(query).all()
    kept = _spaced({row.started_s for row in rows}, _MINUTE_S)
    for started_s, market, resource, price in rows:
        if started_s not in kept:
            continue
        day = days.setdefault(int(started_s // DAY_S), {})
        day.setdefault((market, resource), []).append(_loaded(price))
    return [
        {key: math.fsum(all_) / len(all_) for key, all_ in days[day].items()}
        for day in sorted(days)
    ]


def _stored(price: float) -> float | None:
    """Return the stored form of a price: NULL for infinity, which only SQLite could store."""
    if math.isnan(price) or price < 0:
        raise ValueError(f"a price must be a number of at least 0 (got {price})")
    return None if math.isinf(price) else price


def _loaded(price: float | None) -> float:
    return math.inf if price is None else price
