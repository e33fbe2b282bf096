"""A clock whose time passes from call to call: the calls are events of the kernel's queue."""

from collections.abc import Callable
from typing import Any

from simulator.kernel.event_queue import EventKind, EventQueue


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
        self._now_s, self._made = at_s, 0
        self._queue = EventQueue()
        self._calls: dict[int, VirtualCall] = {}

    def seconds(self) -> float:
        """Return the present time."""
        return self._now_s

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object, **named: Any
    ) -> VirtualCall:
        """Call a function after a delay; calls of the same time run in the order of these calls."""
        return self.call_at(self._now_s + delay, lambda: call(*arguments, **named))

    def call_at(
        self, at_s: float, call: Callable[[], object], kind: EventKind = EventKind.CALL
    ) -> VirtualCall:
        """Call a function at a time, before calls of later kinds of events at that time."""
        coming = VirtualCall(call)
        self._calls[self._made] = coming
        self._queue.add(kind, at_s, self._made)
        self._made += 1
        return coming

    def advance_to_next(self) -> None:
        """Let time pass until the next call, and make it. Raise IndexError without any."""
        event = self._queue.take_one()
        coming = self._calls.pop(event.row)
        while not coming.active():
            event = self._queue.take_one()
            coming = self._calls.pop(event.row)
        self._now_s = max(self._now_s, event.at_s)
        coming.begin()
