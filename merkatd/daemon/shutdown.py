"""The shutdown: every part of the daemon is closed, even if the closing of other parts fails.

A part that raises an exception or exceeds its limit is logged and left. A cancelled coroutine may
wait for something else instead of ending, so the limit does not depend on the coroutine.
"""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

PART_LIMIT_S = 5.0
"""The longest time that a part may take to close, in seconds."""
_AFTER_CANCEL_S = 1.0
"""The time after the cancellation within which cancelled work may end, in seconds."""

_log = Logger()


class OpenParts:
    """The open parts of the daemon, in the order in which they were opened."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._parts: list[tuple[str, Callable[[], Any]]] = []

    def add(self, name: str, close: Callable[[], Any]) -> None:
        """Add a part to close; `close` may return a Deferred."""
        self._parts.append((name, close))

    async def close(self) -> None:
        """Close all parts, the last opened part first. Never raises an exception."""
        while self._parts:
            name, close = self._parts.pop()
            try:
                result = close()
            except Exception:  # noqa: BLE001 - the other parts must be closed too
                _log.failure("Closing {part} failed", part=name)
                continue
            if isinstance(result, Deferred):
                await wait_for_end(self._clock, name, result, PART_LIMIT_S)


async def wait_for_end(clock: Any, name: str, running: Deferred[Any], limit_s: float) -> None:
    """Wait until the work ends, or until it is cancelled after its limit. Never raises."""
    over: Deferred[None] = Deferred()
    late: list[bool] = []

    def end(result: object = None) -> None:
        if isinstance(result, Failure) and not (late and isinstance(result.value, CancelledError)):
            _log.failure("Closing {part} failed", result, part=name)
        if not over.called:
            over.callback(None)

    def cancel() -> None:
        late.append(True)
        running.cancel()
        if not over.called:
            alarms.append(clock.callLater(_AFTER_CANCEL_S, end))

    alarms = [clock.callLater(limit_s, cancel)]
    running.addBoth(end)
    await over
    if late:
        _log.warn(
            "Closing {part} took longer than {limit_s:g} s: cancelled", part=name, limit_s=limit_s
        )
    for alarm in alarms:
        if alarm.active():
            alarm.cancel()
