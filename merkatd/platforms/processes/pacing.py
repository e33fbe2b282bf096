"""So many starts at once: a daemon that begins with hundreds of platforms stays able to answer.

Each process needs a fifth of a second of CPU before it says its first word. Started all together
they would leave the daemon none for the answers that each of them waits for.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

AT_ONCE = 8
"""Processes that were started and have not been heard yet;"""
LIMIT_S = 5.0
"""one that is not heard in this time holds up nobody any more."""


class Pace:
    """Lets each one begin when its turn has come."""

    def __init__(self, clock: Any, begin: Callable[[str], None], most: int = AT_ONCE) -> None:
        self._clock = clock
        self._begin = begin
        self._most = most
        self._waiting: deque[str] = deque()
        self._coming: dict[str, Any] = {}

    def ask(self, name: str) -> None:
        """Let this begin, at once or in its turn."""
        self._waiting.append(name)
        self._go_on()

    def settled(self, name: str) -> None:
        """This one is there, or will never be; it waits for its turn no more either."""
        if name in self._waiting:
            self._waiting.remove(name)
        call = self._coming.pop(name, None)
        if call is not None and call.active():
            call.cancel()
        self._go_on()

    def close(self) -> None:
        """Let nobody begin any more."""
        self._waiting.clear()
        for name in list(self._coming):
            self.settled(name)

    def _go_on(self) -> None:
        while self._waiting and len(self._coming) < self._most:
            name = self._waiting.popleft()
            self._coming[name] = self._clock.callLater(LIMIT_S, self.settled, name)
            self._begin(name)
