"""Questions about present prices with their trend, earlier prices, and steps."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.database.ledger import note_store
from merkatd.database.scheduler import journal, price_store
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import Arguments, one_of, text, whole
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodViews, as_id, host_row, vm_row
from merkatd.service.market import step_history
from merkatd.service.market.step_history import Read, Row

MOST_PERIODS = 10_000


def price_history(arguments: Arguments, markets: Sequence[str], resources: Sequence[str]) -> Read:
    """Return a read of the newest `periods` of a market or of all.

    It returns a row for each period and market, oldest first.
    """
    chosen = one_of(arguments, "market", markets)
    wanted = whole(arguments, "periods")
    periods = 60 if wanted is None else wanted
    if not 1 <= periods <= MOST_PERIODS:
        raise InvalidRequestError(f"periods: must be from 1 to {MOST_PERIODS} (got {periods})")

    def read(connection: sa.Connection) -> list[Row]:
        rows: dict[tuple[int, str], Row] = {}
        for market in [chosen] if chosen else markets:
            points = price_store.history(connection, market, 0.0, periods * len(resources))
            for point in points:
                row = rows.setdefault(
                    (point.period, market),
                    {"period": point.period, "at_s": point.started_s, "market": market},
                )
                row[point.resource] = finite(point.price)
        found = [rows[key] for key in sorted(rows)]
        _announce(connection, found)
        return found

    return read


def _announce(connection: sa.Connection, rows: Sequence[Row]) -> None:
    """Add the change of the supply and its reason to the rows of the periods that changed it."""
    if not rows:
        return
    began = sorted({row["at_s"] for row in rows})
    changes = note_store.recent(
        connection, MOST_PERIODS, kind=note_store.NoteKind.SUPPLY, since_s=began[0]
    )
    said = {began[bisect_right(began, change.at_s) - 1]: change.text for change in changes}
    for row in rows:
        if row["at_s"] in said:
            row["supply"] = said[row["at_s"]]


TREND = 60
"""The periods in a trend of prices."""


class PastQuestions:
    """The questions about the past periods in the database, including the latest."""

    def __init__(self, scheduler: Scheduler, preparing: PeriodViews) -> None:
        self._scheduler = scheduler
        self._preparing = preparing
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "price": self.price,
            "price_history": self._price_history,
            "steps": self.steps,
        }

    async def price(self, arguments: Arguments) -> list[dict[str, Any]]:
        """Return the present price of each resource in a `market` or in all, with its trend."""
        latest = self._preparing.latest
        chosen = one_of(arguments, "market", list(latest.prices))
        past = await self._price_history({"periods": TREND})
        rows = []
        for market, by_resource in latest.prices.items():
            for resource, price in by_resource.items() if chosen in {None, market} else ():
                trend = [row.get(resource) for row in past if row["market"] == market]
                known = [one for one in trend if one is not None]
                rows.append(
                    {
                        "market": market,
                        "resource": resource,
                        "price": finite(price),
                        "before": trend[-2] if len(trend) > 1 else None,
                        "least": min(known, default=None),
                        "most": max(known, default=None),
                        "trend": trend,
                        "period": latest.period,
                        "at_s": latest.at_s,
                    }
                )
        return rows

    async def _price_history(self, arguments: Arguments) -> list[dict[str, Any]]:
        """Return the prices of the newest `periods` of a `market` or of all."""
        world = self._scheduler.world
        names = [market.name for market in world.markets]
        return await world.database.read(price_history(arguments, names, world.goods.resources))

    async def steps(self, arguments: Arguments) -> list[dict[str, Any]]:
        """Return the newest steps, newest first, by vm, host, kind, state, periods or time."""
        latest = self._scheduler.latest
        snapshot = None if latest is None else latest.seen.snapshot
        vm = self._id("vm", arguments)
        host = self._id("host", arguments)
        wanted, limit = step_history.wanted_steps(arguments, vm, host)
        rows = await self._scheduler.world.database.read(
            lambda connection: journal.recent(connection, wanted, limit)
        )
        return step_history.step_rows(rows, snapshot)

    def _id(self, what: str, arguments: Arguments) -> int | None:
        """Return the id of a VM or host, which may be gone by now, or None if not given."""
        if isinstance(arguments.get(what), int):
            return whole(arguments, what)
        wanted = text(arguments, what)
        if wanted is None:
            return None
        number = as_id(wanted)
        if number is not None:
            return whole({what: number}, what)
        snapshot = self._preparing.latest.seen.snapshot
        if what == "vm":
            return int(snapshot.vms.id[vm_row(snapshot, arguments)])
        return int(snapshot.hosts.id[host_row(snapshot.hosts.id, snapshot.hosts.name, arguments)])
