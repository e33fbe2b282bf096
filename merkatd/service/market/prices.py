"""Present prices with their trend, and earlier prices. They are public."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.database.ledger import note_store
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.price_store import PricePoint
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import one_of
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodViews

MOST_PERIODS = 10_000
DEFAULT_PERIODS = 60
TREND_PERIODS = 60


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The present price of a resource in a market."""

    market: str
    resource: str
    price: float | None
    """The price of a unit; None if no price clears the market."""
    period: int
    at_s: float


@dataclass(frozen=True, slots=True)
class PriceTrend:
    """A present price, and the prices of the periods before."""

    now: PriceRow
    trend: Sequence[float | None]
    """The prices of the newest periods, the oldest first."""

    @property
    def before(self) -> float | None:
        """Return the price of the period before the newest."""
        return self.trend[-2] if len(self.trend) > 1 else None

    @property
    def known(self) -> Sequence[float]:
        """Return the prices of the periods in which a price cleared the market."""
        return [price for price in self.trend if price is not None]


@dataclass(frozen=True, slots=True)
class PastPriceRow:
    """The prices of a market in a period."""

    period: int
    at_s: float
    market: str
    prices: Mapping[str, float | None]
    """The prices of a unit by resource; None if no price cleared the market."""
    supply: str | None = None
    """The change of the supply of credits in this period, and its reason."""


class PriceService:
    """The prices of all markets."""

    def __init__(self, scheduler: Scheduler, views: PeriodViews) -> None:
        self._scheduler = scheduler
        self._views = views

    def markets(self) -> Sequence[str]:
        """Return the names of the markets in force."""
        return [market.name for market in self._scheduler.world.markets]

    def present(self, market: str | None = None) -> list[PriceRow]:
        """Return the present prices of a market or of all. Raise RequestError."""
        latest = self._views.latest
        chosen = one_of({"market": market}, "market", list(latest.prices))
        return [
            PriceRow(name, resource, finite(price), latest.period, latest.at_s)
            for name, by_resource in latest.prices.items()
            if chosen in {None, name}
            for resource, price in by_resource.items()
        ]

    async def trends(self, market: str | None = None) -> list[PriceTrend]:
        """Return the present prices of a market or of all, with their trends."""
        present = self.present(market)
        past = await self.history(TREND_PERIODS)
        return [
            PriceTrend(
                trend,
                [row.prices.get(trend.resource) for row in past if row.market == trend.market],
            )
            for trend in present
        ]

    async def history(self, periods: int, market: str | None = None) -> list[PastPriceRow]:
        """Return the prices of the newest periods of a market or of all, the oldest first.

        Raise InvalidRequestError.
        """
        world, known = self._scheduler.world, self.markets()
        chosen = one_of({"market": market}, "market", known)
        if not 1 <= periods <= MOST_PERIODS:
            raise InvalidRequestError(f"periods: must be from 1 to {MOST_PERIODS} (got {periods})")
        names = [chosen] if chosen else known
        points = periods * len(world.goods.resources)
        return await world.database.read(lambda connection: _history(connection, names, points))

    async def spaced(self, last: int, span_s: float, slot_s: int) -> list[PastPriceRow]:
        """Return the prices of all markets in one period of each slot of `span_s` before a period.

        The oldest is first, and the period `last` is there too.
        """
        world, known = self._scheduler.world, self.markets()

        def read(connection: sa.Connection) -> list[PastPriceRow]:
            newest = period_store.get(connection, last)
            if newest is None:
                return []
            periods = period_store.spaced(connection, newest.started_s - span_s, slot_s)
            numbers = [*(number for number in periods if number < last), last]
            points = {
                market: price_store.of_periods(connection, market, numbers) for market in known
            }
            return _rows(connection, points)

        return await world.database.read(read)


def _history(connection: sa.Connection, markets: Sequence[str], points: int) -> list[PastPriceRow]:
    """Return the newest `points` prices of each market."""
    stored = {market: price_store.history(connection, market, 0.0, points) for market in markets}
    return _rows(connection, stored)


def _rows(
    connection: sa.Connection, stored: Mapping[str, Sequence[PricePoint]]
) -> list[PastPriceRow]:
    """Return the prices of periods and markets, with the changes of the supply."""
    began_s: dict[int, float] = {}
    prices: dict[tuple[int, str], dict[str, float | None]] = {}
    for market, points in stored.items():
        for point in points:
            began_s.setdefault(point.period, point.started_s)
            prices.setdefault((point.period, market), {})[point.resource] = finite(point.price)
    supply = _supply_changes(connection, sorted(set(began_s.values())))
    return [
        PastPriceRow(
            period, began_s[period], market, prices[period, market], supply.get(began_s[period])
        )
        for period, market in sorted(prices)
    ]


def _supply_changes(connection: sa.Connection, began_s: Sequence[float]) -> Mapping[float, str]:
    """Return the changes of the supply and their reasons, by the start of their periods."""
    if not began_s:
        return {}
    changes = note_store.recent(
        connection, MOST_PERIODS, kind=note_store.NoteKind.SUPPLY, since_s=began_s[0]
    )
    return {began_s[bisect_right(began_s, change.at_s) - 1]: change.text for change in changes}
