"""The timer of periods: one per interval, earlier after an event, never two at once.

# Note [Pauses between periods]

The next period starts an interval after the last one, or as soon as something wakes the timer.
Between two starts lies at least the least interval. The pause after a period is at least as long as
the period was, up to an interval, so that the daemon spends at most half of its time in periods.
Example: with an interval of 60 s and a least interval of 1 s, a period of 0.2 s that is woken at
once follows after 1 s. A period of 8 s ends 8 s after its start, so the next one starts 16 s after
it at the earliest.
"""

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
        self._begun_s = self._ended_s = 0.0
        self._rest_s = 0.0
        """The least pause after the last period (Note [Pauses between periods])."""
        self._least_s: float | None = None
        """The least time between two starts for the event that woke the timer; None without one."""

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

    def wake(self, least_s: float = 0.0) -> None:
        """Start the next period early, because of an event.

        Between two starts lie at least `least_s` and the least interval.
        """
        self._least_s = least_s if self._least_s is None else min(self._least_s, least_s)
        if self._call is not None:
            self._call.cancel()
            self._wait(self._clock.seconds())

    def is_hastened_by_waking(self) -> bool:
        """Return whether `wake` would start the next period before its present time."""
        if self._least_s == 0.0 or self._stopping:
            return False
        now_s = self._clock.seconds()
        return self._call is None or self._soonest_s(now_s, 0.0) < self._next_s

    def _soonest_s(self, now_s: float, least_s: float) -> float:
        """Return the earliest start of the next period; a clock that was set back delays none."""
        least_s = max(least_s, self._rhythm.least_interval_s)
        return max(
            now_s, min(self._begun_s, now_s) + least_s, min(self._ended_s, now_s) + self._rest_s
        )

    def _wait(self, now_s: float) -> None:
        """Wait until the next period is due, for at most an interval.

        Without this limit, a clock that was set back would stop the periods for that time.
        """
        self._next_s = min(self._next_s, now_s + self._rhythm.interval_s)
        if self._least_s is not None:
            self._next_s = min(self._next_s, self._soonest_s(now_s, self._least_s))
        self._call = self._clock.callLater(max(self._next_s - now_s, 0.0), self._begin)

    def _begin(self) -> None:
        self._call = None
        self._least_s = None
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
        self._ended_s = now_s
        self._rest_s = min(max(now_s - self._begun_s, 0.0), interval_s)
        missed = max(0, int((now_s - self._next_s) // interval_s))
        if missed:
            _log.warn("The period lasted {missed} intervals longer than planned", missed=missed)
        self._next_s += (missed + 1) * interval_s
        self._next_s = max(self._next_s, now_s + self._rest_s)
        self._wait(now_s)
