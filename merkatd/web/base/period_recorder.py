"""The recorder of periods: it fills the memory from announcements and from the database.

Pages receive the announcement of a period after it is stored, so that they find its data.
"""

from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.base.deferreds import SharedResult
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.phases.announce import Announcement
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.period_view import present
from merkatd.service.services import DaemonServices
from merkatd.web.base.goals import OVER, Goal, Goals, of_platform
from merkatd.web.base.long_memory import MOST_SPACED_ROWS, LongPast, SpacedRecords
from merkatd.web.base.period_memory import (
    MOST_ROWS,
    PeriodRecord,
    moment_before,
    moment_of,
)

_MOST_BEFORE = 120
"""The most periods to read from before the start of this daemon: each is a blob."""
_log = Logger()


class PeriodRecorder:
    """Adds records of periods to the memory."""

    def __init__(
        self,
        past: LongPast,
        services: DaemonServices,
        goals: Goals,
        then: Callable[[Announcement], None],
    ) -> None:
        """`then` is called with each announcement after its period is stored."""
        self._then = then
        self._past = past
        self._services = services
        self._goals = goals
        self._whole = False

    def announced(self, latest: Announcement) -> None:
        """Add the record of an announced period."""
        self._past.adding = SharedResult(self._add(latest, self._past.adding))
        ensureDeferred(self._go_on(latest))

    async def _go_on(self, latest: Announcement) -> None:
        await self._past.settled()
        if not self._whole:
            self._whole = True
            await self._read_before(latest.period)
            for spaced in self._past.spaced.values():
                await self._read_spaced(spaced, latest)
        self._then(latest)

    async def _add(self, latest: Announcement, before: SharedResult[None] | None) -> None:
        if before is not None:
            await before.result()
        try:
            goals, world = await self._goals_now(), self._services.world
            work = partial(_moment, latest, world, goals)
            self._past.add(await world.executor.run(work))
        except Exception as error:  # noqa: BLE001 - a missing point must not stop the daemon
            _log.warn("The charts lack a period: {error}", error=str(error))

    async def _goals_now(self) -> Sequence[Goal]:
        there = self._services.platforms
        rows = [] if there is None else await there.platforms(LOCAL)
        known = [of_platform(row) for row in rows if row.state not in OVER]
        return [*known, *self._goals.collect()]

    async def _read_before(self, period: int) -> None:
        try:
            past = await self._services.past.shares_before(period, _MOST_BEFORE, MOST_ROWS)
        except Exception as error:  # noqa: BLE001 - short charts must not stop the daemon
            _log.warn("The charts lack all periods before this start: {error}", error=str(error))
            return
        for shares in past:
            if not self._past.put_before(moment_before(shares)):
                return

    async def _read_spaced(self, spaced: SpacedRecords, latest: Announcement) -> None:
        range_ = spaced.range
        since_s = latest.at_s - range_.span_s
        try:
            past = await self._services.past.spaced_shares(
                latest.period, since_s, range_.slot_s, MOST_SPACED_ROWS
            )
        except Exception as error:  # noqa: BLE001 - as above
            _log.warn(
                "The charts of a {range} are short: {error}", range=range_.name, error=str(error)
            )
            return
        for shares in past:
            if not spaced.put_before(moment_before(shares)):
                return


def _moment(latest: Announcement, context: PeriodContext, goals: Sequence[Goal]) -> PeriodRecord:
    return moment_of(latest.period, present(latest, context.markets), goals)
