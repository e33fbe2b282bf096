"""The time of a world: a queue of events on one delayed call of the clock."""

from __future__ import annotations

import heapq
import math
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from merkatd.base.clock import Clock, DelayedCall


class Agenda:
    """A queue of events; each event runs at exactly its due time in the world's time.

    After a jump of the clock, or on a busy reactor, many events are due at once. Each event still
    reads its own due time from `now()`, so its effects do not depend on the clock's steps.
    """

    def __init__(self, clock: Clock, epoch_s: float, per_turn: int) -> None:
        self._clock = clock
        self._epoch_s = epoch_s
        self._per_turn = per_turn
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._moment: float | None = None
        self._call: DelayedCall | None = None
        self._armed_s = float("inf")
        self.after_turn: Callable[[], None] = lambda: None
        """Runs after each turn of events, before any call can see their effects."""

    def now(self) -> float:
        """Return the present, or the due time of the running event."""
        if self._moment is not None:
            return self._moment
        return self._epoch_s + self._clock.seconds()

    def at(self, due_s: float, event: Callable[[], None]) -> None:
        """Run an event at a time; if the time is past, on the next turn."""
        self._serial += 1
        heapq.heappush(self._queue, (due_s, self._serial, event))
        if self._moment is None:
            self._arm()

    def catch_up(self) -> None:
        """Run all due events now, however many there are."""
        self._run(-1)

    def stop(self) -> None:
        """Drop all events."""
        self._queue.clear()
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._call = None
        self._armed_s = float("inf")

    def _arm(self) -> None:
        if not self._queue:
            return
        due_s = self._queue[0][0]
        if self._call is not None and self._call.active():
            if self._armed_s <= due_s:
                return
            self._call.cancel()
        wait_s = max(0.0, due_s - self._epoch_s - self._clock.seconds())
        self._armed_s = due_s
        self._call = self._clock.callLater(wait_s, self._turn)

    def _turn(self) -> None:
        self._call = None
        self._armed_s = float("inf")
        self._run(self._per_turn or -1)

    def _run(self, left: int) -> None:
        present = self._epoch_s + self._clock.seconds()
        try:
            while self._queue and left and _due(self._queue[0][0], present):
                moment, _, event = heapq.heappop(self._queue)
                self._moment = moment
                event()
                left -= 1
        finally:
            self._moment = None
            self.after_turn()
            self._arm()


def _due(due_s: float, present_s: float) -> bool:
    # A wait is a difference of two large times: the clock may wake too early by a rounding error.
    return due_s <= present_s + 1e-6


class ScaledClock:
    """A world's time: from now on it runs faster than the reactor's time by a factor."""

    def __init__(self, clock: Clock, factor: float, world_s: float) -> None:
        """`world_s` is the world's time now."""
        self._clock = clock
        self._factor = factor
        self._world_s = world_s
        self._began_s = clock.seconds()

    def seconds(self) -> float:
        """Return the world's time now."""
        return self._world_s + (self._clock.seconds() - self._began_s) * self._factor

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Any:
        """Call a function after a delay in the world's seconds."""
        return self._clock.callLater(delay / self._factor, call, *arguments)


class _DueCall:
    """A scheduled call of a paced clock."""

    def __init__(self, call: Callable[[], object], cancelled: Callable[[], None]) -> None:
        self._call: Callable[[], object] | None = call
        self._cancelled = cancelled

    def active(self) -> bool:
        """Return whether the call is still due."""
        return self._call is not None

    def cancel(self) -> None:
        """Cancel the call."""
        self._call = None
        self._cancelled()

    def run(self) -> None:
        """Call the function."""
        call, self._call = self._call, None
        if call is not None:
            call()


class PacedClock:
    """A world's time that runs faster than the reactor's time, but only up to a limit.

    # Note [A world that waits for its daemon]

    On a slow or busy machine the daemon needs more real time for a period. A clock that follows the
    reactor's time would run on meanwhile, and many periods would be missed. So the owner of this
    clock sets a limit (`hold_at`), and moves it whenever the daemon has finished its part. Beyond
    the limit the world's time runs no faster than real time. It does not stop, because the daemon
    itself may wait for a time limit of a call.

    Each call runs at exactly its due time in the world's time, however late the reactor is.
    Example: with a factor of 60 and the reactor blocked for 2 s, a call that is due after 30 s
    reads 30 s, not 120 s.
    """

    def __init__(self, clock: Clock, factor: float, world_s: float) -> None:
        """`world_s` is the world's time now."""
        self._clock = clock
        self._factor = factor
        self._slow = min(factor, 1.0)
        self._anchor = (world_s, clock.seconds(), math.inf)
        """The world's time and the reactor's at the last change of the limit, and the limit."""
        self._queue: list[tuple[float, int, _DueCall]] = []
        self._serial = 0
        self._moment: float | None = None
        self._first_s = math.inf
        """The time of the first call in the queue."""
        self._wake: DelayedCall | None = None

    def seconds(self) -> float:
        """Return the world's time now: in a call its due time, never later than a due call."""
        moment = self._moment  # read once: other threads read this clock too
        return min(self._reached(), self._first_s) if moment is None else moment

    def hold_at(self, limit_s: float) -> None:
        """Let the world's time run fast up to this time, and no faster than real time beyond it."""
        self._anchor = (self._reached(), self._clock.seconds(), limit_s)
        self._arm()

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Any:
        """Call a function after a delay in the world's seconds."""
        self._serial += 1
        due = _DueCall(partial(call, *arguments), self._cancelled)
        heapq.heappush(self._queue, (self.seconds() + delay, self._serial, due))
        if self._queue[0][2] is due:
            self._arm()
        return due

    def _reached(self) -> float:
        """Return the world's time by the reactor's time and the limit alone."""
        world_s, began_s, limit_s = self._anchor
        passed_s = self._clock.seconds() - began_s
        fast_s = min(passed_s, max(limit_s - world_s, 0.0) / self._factor)
        return world_s + fast_s * self._factor + (passed_s - fast_s) * self._slow

    def _real_until(self, due_s: float) -> float:
        """Return the real time until the world reaches a time."""
        now_s, limit_s = self._reached(), self._anchor[2]
        fast_s = max(min(due_s, limit_s) - now_s, 0.0)
        slow_s = max(due_s - max(now_s, limit_s), 0.0)
        return fast_s / self._factor + slow_s / self._slow

    def _arm(self) -> None:
        """Have the reactor call at the time of the first call in the queue."""
        if self._wake is not None and self._wake.active():
            self._wake.cancel()
        self._wake = None
        self._drop_cancelled()
        self._first_s = self._queue[0][0] if self._queue else math.inf
        if self._queue:
            self._wake = self._clock.callLater(self._real_until(self._first_s), self._turn)

    def _turn(self) -> None:
        """Run the first call if it is due; only one, so that the reactor does other work too."""
        self._wake = None
        try:
            if self._queue and _due(self._queue[0][0], self._reached()):
                self._moment, _, due = heapq.heappop(self._queue)
                due.run()
        finally:
            self._moment = None
            self._arm()

    def _cancelled(self) -> None:
        if self._queue and not self._queue[0][2].active():
            self._arm()

    def _drop_cancelled(self) -> None:
        """Remove cancelled calls from the front of the queue, so that they delay nothing."""
        while self._queue and not self._queue[0][2].active():
            heapq.heappop(self._queue)
