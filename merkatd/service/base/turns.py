"""Turns: so many things at a time, handed out to everybody who waits in rotation."""

from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from merkatd.service.base.errors import TooManyRequestsError

Result = TypeVar("Result")
_Waiting = Deferred[None]


class FairTurns:
    """A bounded number of turns; no key holds more than its part, nor waits behind one's queue.

    So many may wait. Beyond that one of the key with the most is refused, its newest. Where
    several have as many, it is the newcomer.
    """

    def __init__(self, total: int, *, per_key: int, waiting: int = 10_000) -> None:
        self._free = total
        self._per_key = per_key
        self._most_waiting = waiting
        self._held: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[_Waiting]] = OrderedDict()
        self._number_waiting = 0
        self._came_last: Hashable = None
        self._handing_out = False

    async def run(self, key: Hashable, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return what the work returns, once it is this key's turn. Raises TooManyRequestsError."""
        turn: _Waiting = Deferred(lambda _: self._leave(key, turn))
        self._waiting.setdefault(key, deque()).append(turn)
        self._number_waiting += 1
        self._came_last = key
        self._hand_out()
        await turn
        try:
            return await work()
        finally:
            self._free += 1
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
            self._hand_out()

    def _hand_out(self) -> None:
        """Begin all that can, then refuse all beyond the bound; short work does not nest."""
        if self._handing_out:
            return
        self._handing_out = True
        try:
            while True:
                if (key := self._next()) is not None:
                    turn = self._waiting[key][0]
                    self._waiting.move_to_end(key)
                    self._leave(key, turn)
                    self._free -= 1
                    self._held[key] += 1
                    turn.callback(None)
                elif self._number_waiting > self._most_waiting:
                    self._refuse_one()
                else:
                    break
        finally:
            self._handing_out = False

    def _next(self) -> Any:
        if self._free <= 0:
            return None
        return next((key for key in self._waiting if self._held[key] < self._per_key), None)

    def _refuse_one(self) -> None:
        """Refuse the newest of the key with the most; of several the one that came last."""
        key = max(self._waiting, key=lambda one: (len(self._waiting[one]), one == self._came_last))
        turn = self._waiting[key][-1]
        self._leave(key, turn)
        turn.errback(TooManyRequestsError("Too many calls wait already: try again in a moment."))

    def _leave(self, key: Hashable, turn: _Waiting) -> None:
        """Stop waiting: it begins, it is refused, or the caller has gone."""
        turns = self._waiting.get(key)
        if turns is not None and turn in turns:
            turns.remove(turn)
            self._number_waiting -= 1
            if not turns:
                del self._waiting[key]
