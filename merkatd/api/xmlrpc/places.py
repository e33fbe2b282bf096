"""The connections of a door: so many at a time; those with many make room for those with few."""

from collections.abc import Iterator
from typing import Any

from merkatd.api.xmlrpc.known import KnownAddresses


class Places:
    """Who has them, by address."""

    def __init__(self, most: int, most_of_one: int, known: KnownAddresses, clock: Any) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._known = known
        self._clock = clock
        self._of: dict[str, dict[Any, None]] = {}
        """Connections by address, each address's in the order in which they came."""
        self._taken = 0

    def __iter__(self) -> Iterator[Any]:
        return iter([one for channels in self._of.values() for one in channels])

    def __len__(self) -> int:
        return self._taken

    def held(self, name: str) -> int:
        """Return how many this address has."""
        return len(self._of.get(name, ()))

    def has_enough(self, name: str) -> bool:
        """Return whether this address has as many as one may."""
        return self.held(name) >= self._most_of_one

    def take(self, name: str, channel: Any) -> None:
        """A connection of this address takes one."""
        self._of.setdefault(name, {})[channel] = None
        self._taken += 1

    def leave(self, name: str, channel: Any) -> None:
        """It leaves; once."""
        channels = self._of.get(name, {})
        if channel in channels:
            del channels[channel]
            self._taken -= 1
            if not channels:
                del self._of[name]

    def makes_room(self, name: str, *, trusted: bool) -> bool:
        """Return whether there is a place for this address; where all are taken, make one free.

        A connection ends whose caller does not read its answers, or that waits for a call, of the
        address that has the most. Strangers' addresses come first. Nobody loses one to an address
        that has as many, unless it is a stranger's and the other is known.
        """
        if self._taken < self._most:
            return True
        strange = {one: self._is_strange(one) for one in self._of}
        known = trusted or not self._is_strange(name)
        ranks = sorted(self._of, key=lambda one: (strange[one], self.held(one)), reverse=True)
        for theirs in ranks:
            if not ((known and strange[theirs]) or self.held(theirs) > self.held(name)):
                continue
            waiting = [one for one in self._of[theirs] if not one.at_work]
            if waiting:
                victim = min(waiting, key=_worth)
                self.leave(theirs, victim)
                victim.abort()
                return True
        return False

    def _is_strange(self, name: str) -> bool:
        if any(one.trusted for one in self._of.get(name, ())):
            return False
        return self._known.user_at(name, self._clock.seconds()) is None


def _worth(channel: Any) -> tuple[bool, bool, float]:
    """Return what decides which of two connections ends first: the lower one."""
    return not channel.is_unread, channel.has_called, channel.heard_s
