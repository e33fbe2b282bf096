"""Time for a world: what is due next, in order, on one delayed call of the clock."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, Protocol

from merkatd.base.deferreds import Time

if TYPE_CHECKING:
    from collections.abc import Callable


class Delayed(Protocol):
    """A call that waits for its time, as Twisted's IDelayedCall."""

    def active(self) -> bool:
        """Whether it still waits."""

    def cancel(self) -> None:
        """Never make it."""


class Agenda:
    """Events by their due time, each run at exactly that time by the world's reckoning.

    A clock that jumps far ahead, or a busy reactor, finds many events due at once. Each still sees
    `now()` as the moment it was due, so that what follows from it is the same however coarse the
    clock's steps are.
    """

    def __init__(self, clock: Time, epoch_s: float, per_turn: int) -> None:
        self._clock = clock
        self._epoch_s = epoch_s
        self._per_turn = per_turn
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self._moment: float | None = None
        self._call: Delayed | None = None
        self._armed_s = float("inf")
        self.after_turn: Callable[[], None] = lambda: None
        """Run whenever events have been run, and before anyone else sees what they did."""

    def now(self) -> float:
        """The present, or the due time of the event that is being run."""
        if self._moment is not None:
            return self._moment
        return self._epoch_s + self._clock.seconds()

    def at(self, due_s: float, event: Callable[[], None]) -> None:
        """Run an event at a time; one that is past already runs on the next turn."""
        self._serial += 1
        heapq.heappush(self._queue, (due_s, self._serial, event))
        if self._moment is None:
            self._arm()

    def catch_up(self) -> None:
        """Run now all that is due, however much it is."""
        self._run(-1)

    def stop(self) -> None:
        """Run nothing any more."""
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
    # A wait is a difference of two large times: the clock may wake a rounding error too early.
    return due_s <= present_s + 1e-6


class ScaledClock:
    """A world's time beside a reactor's: it runs faster by a factor from now on."""

    def __init__(self, clock: Time, factor: float, world_s: float) -> None:
        """`world_s` is the world's time now."""
        self._clock = clock
        self._factor = factor
        self._world_s = world_s
        self._began_s = clock.seconds()

    def seconds(self) -> float:
        """The world's time now."""
        return self._world_s + (self._clock.seconds() - self._began_s) * self._factor

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Any:
        """Call after a delay of the world's own seconds."""
        return self._clock.callLater(delay / self._factor, call, *arguments)
