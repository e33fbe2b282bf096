"""The period (section 2.2): observe, charge, decide, act, tell, and again.

Every interval the daemon looks at the cloud. What was given since the last look is charged.
From the bids in force it works out what each VM gets and where it should be, writes that
down, does it, and announces the new price. A period that takes longer than the interval is
not started twice; one that fails leaves the cloud as it was, and the next goes on.
"""

from collections.abc import Callable

import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from merkatd.database import allocations, journal, periods
from merkatd.database.periods import PeriodState
from merkatd.scheduler.act import act
from merkatd.scheduler.charge import charge
from merkatd.scheduler.decide import decide
from merkatd.scheduler.observe import Seen, observe
from merkatd.scheduler.ports import UnreachableError
from merkatd.scheduler.tell import Announcement, announced, tell
from merkatd.scheduler.world import World

_log = Logger()

Listener = Callable[[Announcement], None]


class Scheduler:
    """The loop. One at a time acts on a cloud."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.paused = False
        self.failures = 0
        """Periods that failed since the last one that did not."""
        self.latest: Announcement | None = None
        self._listeners: list[Listener] = []
        self._stopping = False
        self._call: object = None
        self._in_hand: Deferred[None] | None = None
        self._next_s = 0.0

    async def period(self) -> Announcement:
        """One period from beginning to end."""
        world = self.world
        seen = await observe(world)
        try:
            await charge(world, seen)
            decided = await decide(world, seen)
            acted = await act(world, seen, decided)
        except Exception as error:
            await self._give_up(seen, error)
            raise
        await tell(world, seen, decided)
        await self._tidy(seen.period)
        return announced(world, seen, decided, acted)

    async def _give_up(self, seen: Seen, error: Exception) -> None:
        """Say in the database why the period ended, unless it decided: then it is charged."""
        why, at_s = f"{type(error).__name__}: {error}", self.world.now()

        def store(connection: sa.Connection) -> None:
            present = periods.get(connection, seen.period)
            if present is not None and present.state is PeriodState.OBSERVED:
                periods.failed(connection, seen.period, at_s, why)

        await self.world.database.run(store)

    async def _tidy(self, period: int) -> None:
        """Now and then drop what is older than anybody asks for."""
        before = period - self.world.rhythm.keep_allocations
        if before > 0 and period % 60 == 0:
            await self.world.database.run(lambda c: allocations.forget(c, before))
            await self.world.database.run(lambda c: journal.forget(c, before))
            await self.world.database.run(lambda c: periods.forget_memories(c, before))

    def listen(self, listener: Listener) -> None:
        """Call this with each announcement."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Begin the first period now, and one an interval from then on."""
        self._next_s = self.world.clock.seconds()
        self._begin()

    async def stop(self) -> None:
        """Begin no more, and wait for the one in hand."""
        self._stopping = True
        if self._call is not None:
            self._call.cancel()  # type: ignore[attr-defined]
            self._call = None
        if self._in_hand is not None:
            await self._in_hand

    def _begin(self) -> None:
        self._call = None
        self._in_hand = ensureDeferred(self._one())

    async def _one(self) -> None:
        if not self.paused:
            await self._guarded()
        self._in_hand = None
        if self._stopping:
            return
        interval_s, now_s = self.world.rhythm.interval_s, self.world.clock.seconds()
        missed = max(0, int((now_s - self._next_s) // interval_s))
        if missed:
            _log.warn("A period took {missed} intervals longer than it should", missed=missed)
        self._next_s += (missed + 1) * interval_s
        self._call = self.world.clock.callLater(max(self._next_s - now_s, 0.0), self._begin)

    async def _guarded(self) -> None:
        try:
            self.latest = await self.period()
        except UnreachableError as error:
            self.failures += 1
            _log.warn("The cloud can't be reached: {error}", error=str(error))
            return
        except Exception:  # noqa: BLE001 - whatever it was, the next period goes on
            self.failures += 1
            _log.failure("A period failed; the next goes on")
            return
        self.failures = 0
        for listener in self._listeners:
            listener(self.latest)
