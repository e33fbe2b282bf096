"""Addresses from which a login was good lately: what they send is worth more than a stranger's."""

from collections.abc import Iterator
from typing import Any

_LATELY_S = 3600.0
_MOST = 10_000


class KnownAddresses:
    """Whose login was the last good one from each of them."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}
        """User and time, in the order of the times."""

    def note(self, address: str, user: int, now_s: float) -> None:
        """A login of this user was good."""
        self._last.pop(address, None)
        self._last[address] = user, now_s
        if len(self._last) > _MOST:
            del self._last[next(iter(self._last))]

    def user_at(self, address: str, now_s: float) -> int | None:
        """Return the user of the last good login from there; None for a stranger's address."""
        user, at_s = self._last.get(address, (None, now_s))
        return user if now_s - at_s < _LATELY_S else None


class ByAddress:
    """Connections, counted by address."""

    def __init__(self, most_of_one: int) -> None:
        self._most_of_one = most_of_one
        self._of: dict[str, dict[Any, None]] = {}
        """Each address's in the order in which they came."""
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


class Places(ByAddress):
    """All of a door, by the address that each comes from."""

    def __init__(self, most: int, most_of_one: int, known: KnownAddresses, clock: Any) -> None:
        super().__init__(most_of_one)
        self._most = most
        self._known = known
        self._clock = clock

    def makes_room(self, name: str, *, trusted: bool) -> bool:
        """Return whether there is a place for this address; where all are taken, make one free.

        A connection ends whose caller does not read its answers, or that waits for a call, of the
        address that has the most. Strangers' addresses come first. Nobody loses one to an address
        that has as many, unless it is a stranger's and the other is known. Among a trusted proxy's
        own it is one of the caller with the most behind it, so that the others go on.
        """
        if self._taken < self._most:
            return True
        strange = {one: self._is_strange(one) for one in self._of}
        known = trusted or not self._is_strange(name)
        ranks = sorted(self._of, key=lambda one: (strange[one], self.held(one)), reverse=True)
        for theirs in ranks:
            own = trusted and theirs == name
            if not (own or (known and strange[theirs]) or self.held(theirs) > self.held(name)):
                continue
            waiting = [one for one in self._of[theirs] if not one.at_work]
            if own:
                # The proxy may use the others for its next calls.
                waiting = [one for one in waiting if one.caller is not None]
            if waiting:
                victim = min(self._of_one_caller(waiting), key=_worth)
                self.leave(theirs, victim)
                victim.abort()
                return True
        return False

    def _of_one_caller(self, waiting: list[Any]) -> list[Any]:
        """Return those of the caller with the most, where a trusted proxy brought any."""
        of: dict[str, list[Any]] = {}
        for one in waiting:
            if one.caller is not None:
                of.setdefault(one.caller, []).append(one)
        if not of:
            return waiting
        return of[max(of, key=lambda name: (self._is_strange(name), len(of[name])))]

    def _is_strange(self, name: str) -> bool:
        if any(one.trusted for one in self._of.get(name, ())):
            return False
        return self._known.user_at(name, self._clock.seconds()) is None


def _worth(channel: Any) -> tuple[bool, bool, float]:
    """Return what decides which of two connections ends first: the lower one."""
    return not channel.is_unread, channel.has_called, channel.heard_s
