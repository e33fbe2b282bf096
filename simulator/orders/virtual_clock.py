"""A clock whose time passes from call to call."""

import heapq
from collections.abc import Callable
from typing import Any


class VirtualCall:
    """A call in the future."""

    __slots__ = ("_active", "run")

    def __init__(self, run: Callable[[], object]) -> None:
        self.run, self._active = run, True

    def active(self) -> bool:
        """Return whether the call is still to come."""
        return self._active

    def cancel(self) -> None:
        """Make no call."""
        self._active = False

    def begin(self) -> None:
        """Make the call, unless it was cancelled."""
        if self._active:
            self._active = False
            self.run()


class VirtualClock:
    """The calls to come, by time. Implements `merkatd.base.clock.Clock`."""

    def __init__(self, at_s: float) -> None:
        self._now_s, self._serial = at_s, 0
        self._calls: list[tuple[float, int, VirtualCall]] = []

    def seconds(self) -> float:
        """Return the present time."""
        return self._now_s

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object, **named: Any
    ) -> VirtualCall:
        """Call a function after a delay; calls of the same time run in the order of these calls."""
        coming = VirtualCall(lambda: call(*arguments, **named))
        self._serial += 1
        heapq.heappush(self._calls, (self._now_s + delay, self._serial, coming))
        return coming

    def advance_to_next(self) -> None:
        """Let time pass until the next call, and make it. Raise IndexError without any."""
        at_s, _, coming = heapq.heappop(self._calls)
        if coming.active():
            self._now_s = max(self._now_s, at_s)
            coming.begin()
