"""Live updates: an event to each open page after each period; a slow page delays no other."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _Reader:
    """The visitor of an open page."""

    user: int
    admin: bool
    allowed: Callable[[], bool]
    """Returns whether the visitor's session goes on."""


class Listeners:
    """All open pages that receive live updates."""

    def __init__(self, clock: Any, *, most: int, most_per_user: int) -> None:
        self._clock = clock
        self._most = most
        self._most_per_user = most_per_user
        self._there: dict[Listener, _Reader] = {}
        self._users: Counter[int] = Counter()
        self._beat: Any = None

    def __len__(self) -> int:
        return len(self._there)

    def room(self, user: int) -> bool:
        """Return whether another page of this user can receive live updates."""
        return len(self._there) < self._most and self._users[user] < self._most_per_user

    def add(
        self, listener: Listener, user: int, allowed: Callable[[], bool], *, admin: bool = False
    ) -> None:
        """Send this page its events from now on, as long as `allowed` returns True."""
        self._there[listener] = _Reader(user, admin, allowed)
        self._users[user] += 1
        listener.gone = lambda: self._remove(listener)
        listener.send(b"retry: 3000\n\n")
        if self._beat is None:
            self._beat = self._clock.callLater(_BEAT_S, self._beating)

    def announced(self, latest: Announcement) -> None:
        """Announce the end of a period, without its data: each page requests what it may see."""
        about = {"period": latest.period, "at_s": latest.at_s, "spread_ms": self._spread_ms()}
        self._send(_event("period", about))

    def changed(self, by: int, *, admin: bool) -> None:
        """Announce a change by an order of this user to the pages that can show it.

        The order of a tenant changes only its own pages and those of administrators: other tenants'
        pages would fetch themselves in vain, as often as it likes.
        """
        event = _event("change", {"spread_ms": self._spread_ms()})
        self._send(event, lambda reader: admin or reader.admin or reader.user == by)

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

    def _send(self, event: bytes, concerns: Callable[[_Reader], bool] | None = None) -> None:
        for listener, reader in list(self._there.items()):
            if not reader.allowed():
                listener.end()
            elif concerns is None or concerns(reader):
                listener.send(event)

    def _remove(self, listener: Listener) -> None:
        entry = self._there.pop(listener, None)
        if entry is not None:
            self._users[entry.user] -= 1
            if not self._users[entry.user]:
                del self._users[entry.user]


def _event(name: str, value: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
