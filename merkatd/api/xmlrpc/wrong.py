"""Wrong passwords: who tries them for a user from an address waits longer each time.

The wait is of that user from that address alone. An attacker elsewhere makes nobody wait but
itself, and a neighbour behind the same address makes the others wait for their own users only.
The table holds hashes: a stranger chooses the names, and how long they are.
"""

import secrets
from collections import OrderedDict
from hashlib import blake2b
from typing import NamedTuple

_FREE = 5
"""Wrong passwords without a wait: typing errors."""
_FIRST_S = 1.0
_LONGEST_S = 60.0
_FORGOTTEN_S = 900.0
_MOST_KEPT = 10_000

_Who = bytes
"""A keyed hash of a user's name and an address."""


class _Tries(NamedTuple):
    wrong: int
    last_s: float

    def wait_s(self) -> float:
        over = self.wrong - _FREE
        return 0.0 if over < 0 else min(_FIRST_S * 2.0 ** min(over, 20), _LONGEST_S)


class WrongPasswords:
    """How long each user has to wait at each address."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._tries: OrderedDict[_Who, _Tries] = OrderedDict()
        """In the order of their last times."""

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._tries)

    def wait_s(self, user: str, address: str, now_s: float) -> float:
        """Return the seconds until the next password is looked at; 0 where it is now."""
        tries = self._tries.get(self._who(user, address))
        return 0.0 if tries is None else max(tries.last_s + tries.wait_s() - now_s, 0.0)

    def count(self, user: str, address: str, now_s: float) -> None:
        """Count a wrong one, and forget those that were counted too long ago."""
        self._forget(now_s)
        who = self._who(user, address)
        before = self._tries.pop(who, _Tries(0, now_s))
        self._tries[who] = _Tries(before.wrong + 1, now_s)
        while len(self._tries) > _MOST_KEPT:
            self._tries.popitem(last=False)

    def forgive(self, user: str, address: str) -> None:
        """Forget them: the right one was said."""
        self._tries.pop(self._who(user, address), None)

    def _forget(self, now_s: float) -> None:
        while self._tries:
            oldest = next(iter(self._tries))
            if now_s - self._tries[oldest].last_s <= _FORGOTTEN_S:
                return
            del self._tries[oldest]

    def _who(self, user: str, address: str) -> _Who:
        # No address has a line break in it.
        text = f"{address}\n{user}".encode()
        return blake2b(text, key=self._key, digest_size=16).digest()
