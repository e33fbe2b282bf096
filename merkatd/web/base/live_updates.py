"""Pages that are kept up to date: one event a period to each, and nobody waits for a slow one."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from merkatd.scheduler.phases.announce import Announcement

_BEAT_S = 15.0
"""A comment so often keeps proxies from ending a silent connection, and finds those who left."""

_EACH_MS = 20
"""So much time for each page's questions: they don't all come at once."""


class Listener:
    """One page that is open somewhere."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        end: Callable[[], object],
        drop: Callable[[], object],
    ) -> None:
        """`end` ends it once it has read all, `drop` at once."""
        self._write = write
        self.end = end
        self.drop = drop
        self.slow = False
        """Whether it has not read yet what it was sent."""
        self.gone: Callable[[], None] = lambda: None
        """What is to happen when it has gone."""

    def send(self, event: bytes) -> None:
        """An event; who did not even read the last one is dropped, and comes again."""
        if self.slow:
            self.drop()
        else:
            self._write(event)


class Listeners:
    """All of them."""

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
        """Whether one more of this user can listen."""
        return len(self._there) < self._most and self._users[user] < self._most_per_user

    def add(self, listener: Listener, user: int, allowed: Callable[[], bool]) -> None:
        """It hears all from now on, as long as it is allowed to."""
        self._there[listener] = (user, allowed)
        self._users[user] += 1
        listener.gone = lambda: self._remove(listener)
        listener.send(b"retry: 3000\n\n")
        if self._beat is None:
            self._beat = self._clock.callLater(_BEAT_S, self._beating)

    def announced(self, latest: Announcement) -> None:
        """A period has ended: that is all that is said, each page asks for what it may see."""
        about = {"period": latest.period, "at_s": latest.at_s, "spread_ms": self._spread_ms()}
        self._send(_event("period", about))

    def changed(self) -> None:
        """Something was ordered."""
        self._send(_event("change", {"spread_ms": self._spread_ms()}))

    def _spread_ms(self) -> int:
        return _EACH_MS * len(self._there)

    def close(self) -> None:
        """The daemon ends."""
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
