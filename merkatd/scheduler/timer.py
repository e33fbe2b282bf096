"""The timer of periods: one per interval, earlier after an event, never two at once."""

from collections.abc import Awaitable, Callable
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from merkatd.base.clock import Clock
from merkatd.scheduler.base.settings import Rhythm

_log = Logger()


class PeriodTimer:
    """Starts the periods."""

    def __init__(self, clock: Clock, rhythm: Rhythm, period: Callable[[], Awaitable[None]]) -> None:
        """Call `period` for each period, and log an exception that it raises."""
        self._clock = clock
        self._rhythm = rhythm
        self._period = period
        self._stopping = False
        self._call: Any = None
        self._in_hand: Deferred[None] | None = None
        self._next_s = 0.0
        self._begun_s = 0.0
        self._woken = False

    @property
    def stopping(self) -> bool:
        """Whether no more periods start."""
        return self._stopping

    def start(self) -> None:
        """Start the first period now, and one per interval after it."""
        self._next_s = self._clock.seconds()
        self._begin()

    async def stop(self) -> None:
        """Start no more periods, and wait for the running one."""
        self._stopping = True
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._in_hand is not None:
            await self._in_hand

    def adopt(self, rhythm: Rhythm) -> None:
        """Use this rhythm after the start of the next period."""
        self._rhythm = rhythm

    def start_over(self) -> None:
        """Start the next period now, unless one is running."""
        if self._call is not None and not self._stopping:
            self._call.cancel()
            self.start()

    def wake(self) -> None:
        """Start the next period as soon as the least interval allows, because of an event."""
        self._woken = True
        if self._call is not None:
            self._call.cancel()
            self._wait(self._clock.seconds())

    def _wait(self, now_s: float) -> None:
        """Wait until the next period is due, for at most an interval.

        Without this limit, a clock that was set back would stop the periods for that time.
        """
        self._next_s = min(self._next_s, now_s + self._rhythm.interval_s)
        if self._woken:
            soonest_s = max(now_s, min(self._begun_s, now_s) + self._rhythm.least_interval_s)
            self._next_s = min(self._next_s, soonest_s)
        self._call = self._clock.callLater(max(self._next_s - now_s, 0.0), self._begin)

    def _begin(self) -> None:
        self._call = None
        self._woken = False
        self._begun_s = self._clock.seconds()
        self._in_hand = ensureDeferred(self._one())

    async def _one(self) -> None:
        try:
            await self._period()
        except Exception:  # noqa: BLE001 - without a next period the daemon would do nothing
            _log.failure("A period raised an exception; the next one starts when it is due")
        self._in_hand = None
        if self._stopping:
            return
        interval_s, now_s = self._rhythm.interval_s, self._clock.seconds()
        missed = max(0, int((now_s - self._next_s) // interval_s))
        if missed:
            _log.warn("The period lasted {missed} intervals longer than planned", missed=missed)
        self._next_s += (missed + 1) * interval_s
        self._wait(now_s)
