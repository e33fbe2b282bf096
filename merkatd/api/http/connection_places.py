"""The places of connections on a port, and the addresses with recent logins.

If all places are taken, the connections of such known addresses have priority.
"""

from collections.abc import Iterator
from typing import Any

_LATELY_S = 3600.0
_MOST = 10_000


class KnownAddresses:
    """The addresses with recent logins, and the last user of each."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}
        """The last user and the time by address, in the order of the times."""

    def note(self, address: str, user: int, now_s: float) -> None:
        """Record an accepted login of this user."""
        self._last.pop(address, None)
        self._last[address] = user, now_s
        if len(self._last) > _MOST:
            del self._last[next(iter(self._last))]

    def user_at(self, address: str, now_s: float) -> int | None:
        """Return the user of the last accepted login from there, or None if it is unknown."""
        user, at_s = self._last.get(address, (None, now_s))
        return user if now_s - at_s < _LATELY_S else None


class ConnectionsByAddress:
    """Connections by address, with a bound for each address."""

    def __init__(self, most_of_one: int) -> None:
        self._most_of_one = most_of_one
        self._of: dict[str, dict[Any, None]] = {}
        """The connections of each address, in the order of their arrival."""
        self._taken = 0

    def __iter__(self) -> Iterator[Any]:
        return iter([channel for channels in self._of.values() for channel in channels])

    def __len__(self) -> int:
        return self._taken

    def held(self, name: str) -> int:
        """Return the number of this address's connections."""
        return len(self._of.get(name, ()))

    def has_enough(self, name: str) -> bool:
        """Return whether this address has reached the bound."""
        return self.held(name) >= self._most_of_one

    def take(self, name: str, channel: Any) -> None:
        """Add a connection of this address."""
        self._of.setdefault(name, {})[channel] = None
        self._taken += 1

    def leave(self, name: str, channel: Any) -> None:
        """Remove a connection, if it has not been removed before."""
        channels = self._of.get(name, {})
        if channel in channels:
            del channels[channel]
            self._taken -= 1
            if not channels:
                del self._of[name]


class ConnectionPlaces(ConnectionsByAddress):
    """All connections of a port, by address."""

    def __init__(self, most: int, most_of_one: int, known: KnownAddresses, clock: Any) -> None:
        super().__init__(most_of_one)
        self._most = most
        self._known = known
        self._clock = clock

    def makes_room(self, name: str, *, trusted: bool) -> bool:
        """Return whether there is a place for this address; if all are taken, try to free a place.

        The daemon ends a connection of the address with the most connections, unknown addresses
        first. It must be a connection whose client does not read its answers, or that waits for a
        call. An address loses no connection to an address that has as many, unless the first is
        unknown and the second is known. If a trusted proxy needs a place, one of its own
        connections may end: that of the caller with the most calls behind it.
        """
        if self._taken < self._most:
            return True
        strange = {caller: self._is_strange(caller) for caller in self._of}
        known = trusted or not self._is_strange(name)
        ranks = sorted(
            self._of, key=lambda caller: (strange[caller], self.held(caller)), reverse=True
        )
        for theirs in ranks:
            own = trusted and theirs == name
            if not (own or (known and strange[theirs]) or self.held(theirs) > self.held(name)):
                continue
            waiting = [channel for channel in self._of[theirs] if not channel.at_work]
            if own:
                # The proxy may use its other connections for its next calls.
                waiting = [channel for channel in waiting if channel.caller is not None]
            if waiting:
                victim = min(self._of_one_caller(waiting), key=_worth)
                self.leave(theirs, victim)
                victim.abort()
                return True
        return False

    def _of_one_caller(self, waiting: list[Any]) -> list[Any]:
        """Return the connections of the proxy's caller with the most, or all if none has any."""
        of: dict[str, list[Any]] = {}
        for channel in waiting:
            if channel.caller is not None:
                of.setdefault(channel.caller, []).append(channel)
        if not of:
            return waiting
        return of[max(of, key=lambda name: (self._is_strange(name), len(of[name])))]

    def _is_strange(self, name: str) -> bool:
        if any(channel.trusted for channel in self._of.get(name, ())):
            return False
        return self._known.user_at(name, self._clock.seconds()) is None


def _worth(channel: Any) -> tuple[bool, bool, float]:
    """Return a sort key: the connection with the lowest key ends first."""
    return not channel.is_unread, channel.has_called, channel.heard_s
