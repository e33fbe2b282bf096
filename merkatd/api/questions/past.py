"""Questions about the past: prices with their trend, and the steps that were taken."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from merkatd.api.questions import history
from merkatd.api.questions.prepared import Preparing
from merkatd.api.questions.words import (
    Arguments,
    as_id,
    finite,
    host_row,
    one_of,
    text,
    vm_row,
    whole,
)
from merkatd.database.scheduler import journal
from merkatd.scheduler.period import Scheduler

TREND = 60
"""Periods that a trend of prices shows."""


class PastQuestions:
    """What the database keeps of periods that are over, down to the latest one."""

    def __init__(self, scheduler: Scheduler, preparing: Preparing) -> None:
        self._scheduler = scheduler
        self._preparing = preparing
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "price": self.price,
            "price_history": self._price_history,
            "steps": self.steps,
        }

    async def price(self, arguments: Arguments) -> list[dict[str, Any]]:
        """The present price of each resource in one `market` or in all, with its trend."""
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
        """The prices of the newest `periods`, of one `market` or of all."""
        world = self._scheduler.world
        names = [market.name for market in world.markets]
        return await world.database.read(
            history.price_history(arguments, names, world.goods.resources)
        )

    async def steps(self, arguments: Arguments) -> list[dict[str, Any]]:
        """The newest steps, newest first, filtered by vm, host, kind, state, periods, time."""
        latest = self._scheduler.latest
        snapshot = None if latest is None else latest.seen.snapshot
        vm = self._id("vm", arguments)
        host = self._id("host", arguments)
        wanted, limit = history.wanted_steps(arguments, vm, host)
        rows = await self._scheduler.world.database.read(
            lambda connection: journal.recent(connection, wanted, limit)
        )
        return history.step_rows(rows, snapshot)

    def _id(self, what: str, arguments: Arguments) -> int | None:
        """The id of a VM or host, which may be gone by now; None where none is named."""
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
