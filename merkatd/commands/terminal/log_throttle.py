"""A limit on repeated log lines: one a minute about connections that Twisted could not accept."""

import time
from collections.abc import Callable
from typing import Any

_EVERY_S = 60.0
_NAMESPACE = "twisted.internet.tcp"
"""Twisted's module that logs thousands of lines a second when the process lacks open files."""


class LogThrottle:
    """Log observer that drops repeated events; the next line states how many it dropped."""

    def __init__(
        self, observer: Callable[[Any], None], seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._observer = observer
        self._seconds = seconds
        self._said: dict[str, tuple[float, int]] = {}
        """Time of the last written line, and number of dropped lines since, by message."""

    def __call__(self, event: dict[str, Any]) -> None:
        """Pass an event to the next observer, or drop it."""
        log_format = event.get("log_format")
        if log_format is None or not _is_twisteds(event):
            self._observer(event)
            return
        now_s = self._seconds()
        at_s, left_out = self._said.get(log_format, (now_s - _EVERY_S, 0))
        if now_s - at_s < _EVERY_S:
            self._said[log_format] = at_s, left_out + 1
            return
        self._said[log_format] = now_s, 0
        if left_out:
            more = f"{log_format} ({left_out} more since the last such line)"
            event = event | {"log_format": more}
        self._observer(event)


def _is_twisteds(event: dict[str, Any]) -> bool:
    return str(event.get("log_namespace")).startswith(_NAMESPACE) and "log_failure" not in event
