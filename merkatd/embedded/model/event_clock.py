"""The time of a world: a queue of events on one delayed call of the clock."""

from __future__ import annotations

import heapq
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
