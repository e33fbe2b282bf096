"""The recorder of the prices of room, from which quotes of limit orders learn the past.

It follows the announcements of periods, so a slow or failing record never delays one. It records
each market with limit orders every five minutes, or each interval if that is longer. Periods that
begin early add nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.cluster.orders import LimitOrder
from merkatd.database.room_price_store import store_rooms
from merkatd.database.scheduler import limit_order_store
from merkatd.market.odds.room_prices import RoomPrices, rooms_now
from merkatd.platforms.order_quotes import present_book
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import Announcement
from merkatd.scheduler.terms.ordered_vms import takes_orders

LEAST_SPACE_S = 300.0
"""The least time between two records: five minutes."""
_NEARLY = 0.9
"""The part of that time that counts as all of it: intervals differ."""
_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class MarketRooms:
    """The prices of room in a market, in one moment."""

    market: str
    rooms: RoomPrices


def space_s(interval_s: float) -> float:
    """Return the time between two records."""
    return max(interval_s, LEAST_SPACE_S)


class RoomRecorder:
    """Records the prices of room after a period, if the last record is old enough."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._last_s = -np.inf

    def announced(self, announcement: Announcement) -> None:
        """Record the prices of room of a period."""
        ensureDeferred(self.record(announcement))

    async def record(self, announcement: Announcement) -> None:
        """Record the prices of room of a period, unless it began soon after the last record."""
        world = self._scheduler.world
        passed_s = abs(announcement.at_s - self._last_s)  # a clock may be set back
        if passed_s < space_s(world.rhythm.interval_s) * _NEARLY:
            return
        markets = world.markets
        if not any(takes_orders(market) for market in markets):
            return
        self._last_s = announcement.at_s
        try:
            orders = await world.database.read(limit_order_store.living)
            recorded = await world.executor.run(lambda: rooms_of(announcement, markets, orders))
            names = announcement.seen.snapshot.resources

            def write(connection: sa.Connection) -> None:
                for each in recorded:
                    store_rooms(connection, announcement.period, each.market, names, each.rooms)

            await world.database.run(write)
        except Exception as error:  # noqa: BLE001 - a later period records again
            _log.warn("The prices of room could not be recorded: {error}", error=str(error))


def rooms_of(
    announcement: Announcement, markets: Sequence[MarketRules], orders: Sequence[LimitOrder]
) -> list[MarketRooms]:
    """Return the prices of room of each market with limit orders."""
    snapshot = announcement.seen.snapshot
    rooms = []
    for row, market in enumerate(markets):
        if not takes_orders(market) or market.name not in announcement.prices:
            continue
        book = present_book(snapshot, row, market, announcement.prices[market.name], orders)
        rooms.append(MarketRooms(market.name, rooms_now(book)))
    return rooms
