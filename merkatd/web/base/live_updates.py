"""Live updates: an event to each open page after each period; a slow page delays no other."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from merkatd.scheduler.phases.announce import Announcement

_BEAT_S = 15.0
"""The time between comments; they keep idle connections open in proxies and find dead ones."""

_EACH_MS = 20
"""The time per open page over which the pages' requests are spread after an event."""


class Listener:
    """An open page that receives live updates."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        end: Callable[[], object],
        drop: Callable[[], object],
    ) -> None:
        """`end` closes the connection after the page has read all events, `drop` immediately."""
        self._write = write
        self.end = end
        self.drop = drop
        self.slow = False
        """Whether the page has not yet read all events."""
        self.gone: Callable[[], None] = lambda: None
        """Called when the connection is closed."""

    def send(self, event: bytes) -> None:
        """Send an event; drop a page that has not read the last one, so that it reconnects."""
        if self.slow:
            self.drop()
        else:
            self._write(event)


class Listeners:
    """All open pages that receive live updates."""

    def __init__(self, clock: Any, *, most: int, most_per_user: int) -> None:
        self._clock = clock
        self._most = most
        self._most_per_user = most_per_user
        self._there: dict[Listener, tuple[int, Callable[[], bool]]] = {}
        self._users: Counter[int] = Counter()
        self._beat: Any = None

    def __len__(self) -> int:
        return len(self._there)

    def room(self, user: int) -> bool:
        """Return whether another page of this user can receive live updates."""
        return len(self._there) < self._most and self._users[user] < self._most_per_user

    def add(self, listener: Listener, user: int, allowed: Callable[[], bool]) -> None:
        """Send all events to this page from now on, as long as `allowed` returns True."""
        self._there[listener] = (user, allowed)
        self._users[user] += 1
        listener.gone = lambda: self._remove(listener)
        listener.send(b"retry: 3000\n\n")
        if self._beat is None:
            self._beat = self._clock.callLater(_BEAT_S, self._beating)

    def announced(self, latest: Announcement) -> None:
        """Announce the end of a period, without its data: each page requests what it may see."""
        about = {"period": latest.period, "at_s": latest.at_s, "spread_ms": self._spread_ms()}
        self._send(_event("period", about))

    def changed(self) -> None:
        """Announce a change by an order."""
        self._send(_event("change", {"spread_ms": self._spread_ms()}))

    def _spread_ms(self) -> int:
        return _EACH_MS * len(self._there)

    def close(self) -> None:
        """Close all connections: the daemon stops."""
        if self._beat is not None:
            self._beat.cancel()
            self._beat = None
        for listener in list(self._there):
            listener.end()

    def _beating(self) -> None:
        self._send(b": still here\n\n")
        self._beat = self._clock.callLater(_BEAT_S, self._beating) if self._there else None

    def _send(self, event: bytes) -> None:
        for listener, (_, allowed) in list(self._there.items()):
            if allowed():
                listener.send(event)
            else:
                listener.end()

    def _remove(self, listener: Listener) -> None:
        found = self._there.pop(listener, None)
        if found is not None:
            user, _ = found
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]


def _event(name: str, value: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
