"""Work that is done once, however many wait for what comes of it."""

from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.python.failure import Failure

Result = TypeVar("Result")


class Once(Generic[Result]):
    """A coroutine that runs from now on; each who waits gets its result or its error."""

    def __init__(self, running: Coroutine[Deferred[Any], Any, Result]) -> None:
        self._waiting: list[Deferred[Result]] = []
        self.over = False
        """Whether it has come to its end."""
        self._outcome: Any = None
        ensureDeferred(running).addBoth(self._end)

    @property
    def failed(self) -> bool:
        """Whether it is over, and came to nothing."""
        return self.over and isinstance(self._outcome, Failure)

    async def result(self) -> Result:
        """What came of it, as soon as it is over."""
        if not self.over:
            waiting: Deferred[Result] = Deferred()
            self._waiting.append(waiting)
            return await waiting
        if isinstance(self._outcome, Failure):
            self._outcome.raiseException()
        result: Result = self._outcome
        return result

    def _end(self, outcome: Any) -> None:
        self.over, self._outcome = True, outcome
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            # Whoever gave up waiting has cancelled theirs.
            if not one.called:
                one.callback(outcome)
