"""Keeping the past: after each period what it gave, and once what the database has of earlier ones.

Pages are told of a period when it is kept, so that what they ask for then is there.
"""

from collections.abc import Callable, Sequence
from functools import partial

import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.api.once import Once
from merkatd.api.questions import DaemonQuestions
from merkatd.api.questions.present import present
from merkatd.database.scheduler import period_store, price_store
from merkatd.scheduler.context import World
from merkatd.scheduler.phases.announce import Announcement
from merkatd.web.goals import OVER, Goal, Goals, of_platform
from merkatd.web.past import MOST_ROWS, Moment, Past, moment_before, moment_of

_MOST_BEFORE = 120
"""Periods from before this daemon began: each is a blob to be read."""

_log = Logger()


class Keeping:
    """Fills the past."""

    def __init__(
        self,
        past: Past,
        questions: DaemonQuestions,
        goals: Goals,
        then: Callable[[Announcement], None],
    ) -> None:
        """`then` is called with each announcement once it is kept: pages are told so late."""
        self._then = then
        self._past = past
        self._questions = questions
        self._goals = goals
        self._whole = False

    def announced(self, latest: Announcement) -> None:
        """A period is over."""
        self._past.adding = Once(self._add(latest, self._past.adding))
        ensureDeferred(self._go_on(latest))

    async def _go_on(self, latest: Announcement) -> None:
        await self._past.settled()
        if not self._whole:
            self._whole = True
            await self._read_before(latest.period)
        self._then(latest)

    async def _add(self, latest: Announcement, before: Once[None] | None) -> None:
        if before is not None:
            await before.result()
        try:
            goals, world = await self._goals_now(), self._questions.world
            work = partial(_moment, latest, world, goals)
            self._past.add(await world.executor.run(work))
        except Exception as error:  # noqa: BLE001 - a chart lacks a point, the daemon lives on
            _log.warn("A period is missing in charts: {error}", error=str(error))

    async def _goals_now(self) -> Sequence[Goal]:
        there = self._questions.platforms
        rows = [] if there is None else await there.listed(None)
        known = [of_platform(row) for row in rows if row["state"] not in OVER]
        return [*known, *self._goals.told()]

    async def _read_before(self, period: int) -> None:
        world = self._questions.world
        read = partial(_earlier, world=world, period=period)
        try:
            found = await world.database.read(read)
        except Exception as error:  # noqa: BLE001 - charts begin later, the daemon lives on
            _log.warn("Charts begin with this daemon: {error}", error=str(error))
            return
        for moment in found:
            if not self._past.put_before(moment):
                return


def _moment(latest: Announcement, world: World, goals: Sequence[Goal]) -> Moment:
    return moment_of(latest.period, present(latest, world.markets), goals)


def _earlier(connection: sa.Connection, world: World, period: int) -> list[Moment]:
    """The periods before this one, the newest first, as far back as they are like it."""
    found: list[Moment] = []
    rows = 0
    for one in period_store.recent(connection, _MOST_BEFORE + 1):
        arrays = (
            price_store.load_allocations(connection, one.number) if one.number < period else None
        )
        if arrays is None:
            continue
        rows += len(arrays["vm"])
        if arrays["allocation"].shape[1] != len(world.goods.resources) or rows > MOST_ROWS:
            break
        found.append(moment_before(one, arrays, world.markets))
    return found
