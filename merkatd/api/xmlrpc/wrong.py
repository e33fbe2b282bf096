"""Wrong passwords: who tries them for a user from an address waits longer each time.

The wait is of that user from that address alone. An attacker elsewhere makes nobody wait but
itself, and a neighbour behind the same address makes the others wait for their own users only.
"""

from collections import OrderedDict
from typing import NamedTuple

_FREE = 5
"""Wrong passwords without a wait: typing errors."""
_FIRST_S = 1.0
_LONGEST_S = 60.0
_FORGOTTEN_S = 900.0
_MOST_KEPT = 10_000

_Who = tuple[str, str]
"""A user's name, and an address."""


class _Tries(NamedTuple):
    wrong: int
    last_s: float

    def wait_s(self) -> float:
        over = self.wrong - _FREE
        return 0.0 if over < 0 else min(_FIRST_S * 2.0 ** min(over, 20), _LONGEST_S)


class WrongPasswords:
    """How long each user has to wait at each address."""

    def __init__(self) -> None:
        self._tries: OrderedDict[_Who, _Tries] = OrderedDict()

    def wait_s(self, user: str, address: str, now_s: float) -> float:
        """Return the seconds until the next password is looked at; 0 where it is now."""
        tries = self._tries.get((user, address))
        return 0.0 if tries is None else max(tries.last_s + tries.wait_s() - now_s, 0.0)

    def count(self, user: str, address: str, now_s: float) -> None:
        """Count a wrong one."""
        before = self._tries.pop((user, address), _Tries(0, now_s))
        wrong = 0 if now_s - before.last_s > _FORGOTTEN_S else before.wrong
        self._tries[user, address] = _Tries(wrong + 1, now_s)
        while len(self._tries) > _MOST_KEPT:
            self._tries.popitem(last=False)

    def forgive(self, user: str, address: str) -> None:
        """Forget them: the right one was said."""
        self._tries.pop((user, address), None)
