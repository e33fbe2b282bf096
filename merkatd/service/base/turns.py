"""Turns: a bounded number of running jobs, shared fairly among waiting keys."""

from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from merkatd.service.base.errors import TooManyRequestsError

Result = TypeVar("Result")
_Waiting = Deferred[None]


class FairTurns:
    """A bounded number of turns, given to the keys in rotation.

    No key holds more than `per_key` turns, and no key waits behind another key's queue. If more
    than `waiting` jobs wait, the newest job of the key with the most waiting jobs is rejected. If
    several keys have that many, it is the job of the key that came last.
    """

    def __init__(self, total: int, *, per_key: int, waiting: int = 10_000) -> None:
        self._free = total
        self._per_key = per_key
        self._most_waiting = waiting
        self._held: Counter[Hashable] = Counter()
        self._waiting: OrderedDict[Hashable, deque[_Waiting]] = OrderedDict()
        self._number_waiting = 0
        self._came_last: Hashable = None
        self._starting_jobs = False

    async def run(self, key: Hashable, work: Callable[[], Awaitable[Result]]) -> Result:
        """Wait for a turn of this key, then return the work's result.

        Raise TooManyRequestsError if too many jobs wait.
        """
        turn: _Waiting = Deferred(lambda _: self._leave(key, turn))
        self._waiting.setdefault(key, deque()).append(turn)
        self._number_waiting += 1
        self._came_last = key
        self._start_jobs()
        await turn
        try:
            return await work()
        finally:
            self._free += 1
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
            self._start_jobs()

    def _start_jobs(self) -> None:
        """Start all jobs that can start, then reject the jobs beyond the bound.

        A job that ends at once calls this again: that call does nothing, so calls do not nest.
        """
        if self._starting_jobs:
            return
        self._starting_jobs = True
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
            self._starting_jobs = False

    def _next(self) -> Any:
        if self._free <= 0:
            return None
        return next((key for key in self._waiting if self._held[key] < self._per_key), None)

    def _refuse_one(self) -> None:
        """Reject the newest job of the key with the most; of several keys, the last to come."""
        key = max(
            self._waiting,
            key=lambda visitor: (len(self._waiting[visitor]), visitor == self._came_last),
        )
        turn = self._waiting[key][-1]
        self._leave(key, turn)
        turn.errback(TooManyRequestsError("Too many calls wait already: try again in a moment."))

    def _leave(self, key: Hashable, turn: _Waiting) -> None:
        """Remove a waiting turn: its job starts, is rejected, or its caller has gone."""
        turns = self._waiting.get(key)
        if turns is not None and turn in turns:
            turns.remove(turn)
            self._number_waiting -= 1
            if not turns:
                del self._waiting[key]
