"""The present with its quotes: prepared once a period, where it holds nobody up."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from merkatd.api.once import Once
from merkatd.api.questions.present import Present, present
from merkatd.api.questions.words import NotNowError
from merkatd.market.quote import Quotes
from merkatd.scheduler.base.settings import Market
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import Announcement


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What can be asked of a period without looking at every VM again."""

    latest: Announcement
    now: Present
    quotes: Sequence[Quotes]
    """By market,"""
    by_use: Sequence[bool]
    """and whether it charges for use."""
    markets: Sequence[Market] = ()


class Preparing:
    """Prepares each period when somebody first asks about it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._of: Announcement | None = None
        self._once: Once[Prepared] | None = None

    @property
    def latest(self) -> Announcement:
        """The latest period. Raises NotNowError."""
        if self._scheduler.latest is None:
            raise NotNowError("there was no period yet: try again in a moment")
        return self._scheduler.latest

    async def prepared(self) -> Prepared:
        """The latest period, prepared. Raises NotNowError."""
        latest = self.latest
        if self._once is None or self._of is not latest or self._once.failed:
            self._of, self._once = latest, Once(self._prepare(latest))
        return await self._once.result()

    async def _prepare(self, latest: Announcement) -> Prepared:
        world = self._scheduler.world
        return await world.executor.run(lambda: prepare(latest, world.markets))


def prepare(latest: Announcement, markets: Sequence[Market]) -> Prepared:
    """Everything that quotes are made from."""
    now = present(latest, markets)
    held = held_memory.held(now.snapshot, now.limits)
    holds = held_memory.with_held(np.zeros_like(now.snapshot.vms.bid), held)
    quotes = [
        Quotes.of(
            now.snapshot,
            row,
            now.host,
            market.pricing.rule,
            market.pricing.reserve_prices(now.snapshot.resources),
            holds,
            latest.seen.claims if market.bids_bound else None,
        )
        for row, market in enumerate(markets)
    ]
    return Prepared(latest, now, quotes, [market.by_use for market in markets], markets)
