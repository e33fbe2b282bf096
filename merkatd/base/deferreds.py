"""Waiting for several results, for so long at most, or once for all who ask."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, Protocol, TypeVar

from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.python.failure import Failure

Result = TypeVar("Result")


class Time(Protocol):
    """What is used of Twisted's IReactorTime: any reactor, or a `twisted.internet.task.Clock`."""

    def seconds(self) -> float:
        """The present."""

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Any:
        """Call after a delay."""


async def within(
    seconds: float, clock: Time, running: Coroutine[Deferred[Any], Any, Result]
) -> Result:
    """What the coroutine returns; cancelled, with TimeoutError, when it takes longer."""
    deferred = ensureDeferred(running)
    late = []

    def give_up() -> None:
        late.append(True)
        deferred.cancel()

    # On a busy machine the time is over before it has begun.
    alarm = clock.callLater(max(seconds, 0.0), give_up)
    try:
        return await deferred
    except Exception as error:
        if late:
            raise TimeoutError(f"no answer within {seconds:.3g} s") from error
        raise
    finally:
        if alarm.active():
            alarm.cancel()


async def in_parallel(running: Iterable[Coroutine[Deferred[Any], Any, Any]]) -> list[Any]:
    """What all return, in order, once all are over; raises the error of the first that has."""
    deferreds = [ensureDeferred(one) for one in running]
    outcomes = await DeferredList(deferreds, consumeErrors=True)
    for success, outcome in outcomes:
        if not success:
            outcome.raiseException()
    return [outcome for _, outcome in outcomes]


async def few_at_once(
    running: Iterable[Coroutine[Deferred[Any], Any, Any]], most: int
) -> list[Any]:
    """The same, but each begins when fewer than `most` others are under way.

    To begin all calls about a large cloud at the same moment would hold the reactor.
    """
    numbered, found = iter(enumerate(running)), {}

    async def one_after_another() -> None:
        for number, one in numbered:
            found[number] = await one

    await in_parallel(one_after_another() for _ in range(most))
    return [found[number] for number in range(len(found))]


class SharedResult(Generic[Result]):
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
