"""Turns: so many things at a time, handed out to everybody who waits in rotation."""

from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from merkatd.api.xmlrpc.words import Code, Refusal

Result = TypeVar("Result")
_Waiting = Deferred[None]


class FairTurns:
    """A bounded number of turns; no key holds more than its part, nor waits behind one's queue."""

    def __init__(self, total: int, *, per_key: int, waiting: int = 10_000) -> None:
        self._free = total
        self._per_key = per_key
        self._most_waiting = waiting
        self._held: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[_Waiting]] = OrderedDict()
        self._handing_out = False

    async def run(self, key: Hashable, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return what the work returns, once it is this key's turn. Raises Refusal."""
        if sum(map(len, self._waiting.values())) >= self._most_waiting:
            raise Refusal(Code.ACTION, "Too many calls wait already: try again in a moment.")
        turn: _Waiting = Deferred(lambda _: self._leave(key, turn))
        self._waiting.setdefault(key, deque()).append(turn)
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
        """Begin what can begin; a turn that ends at once does not nest."""
        if self._handing_out:
            return
        self._handing_out = True
        try:
            while (key := self._next()) is not None:
                turns = self._waiting[key]
                turn = turns.popleft()
                self._waiting.move_to_end(key)
                if not turns:
                    del self._waiting[key]
                self._free -= 1
                self._held[key] += 1
                turn.callback(None)
        finally:
            self._handing_out = False

    def _next(self) -> Any:
        if self._free <= 0:
            return None
        return next((key for key in self._waiting if self._held[key] < self._per_key), None)

    def _leave(self, key: Hashable, turn: _Waiting) -> None:
        """Stop waiting: the caller has gone."""
        turns = self._waiting.get(key)
        if turns is not None and turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[key]
