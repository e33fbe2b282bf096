"""Waiting for coroutines: with a time limit, in parallel, or one run shared by many callers."""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from merkatd.base.clock import Clock, Executor

Result = TypeVar("Result")
Item = TypeVar("Item")


def wait_seconds(clock: Clock, seconds: float) -> Deferred[None]:
    """Return a Deferred that fires after this time; cancelling it ends the wait."""
    time: Any = clock  # an IReactorTime to Twisted
    return deferLater(time, seconds)


async def within(
    seconds: float, clock: Clock, running: Coroutine[Deferred[Any], Any, Result]
) -> Result:
    """Return the coroutine's result. If it takes longer, cancel it and raise TimeoutError."""
    deferred = ensureDeferred(running)
    late = []

    def give_up() -> None:
        late.append(True)
        deferred.cancel()

    # On a busy machine the time can be over before the wait begins.
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
    """Return all results in order, after all have ended. Raise the first error in that order."""
    deferreds = [ensureDeferred(coroutine) for coroutine in running]
    outcomes = await DeferredList(deferreds, consumeErrors=True)
    for success, outcome in outcomes:
        if not success:
            outcome.raiseException()
    return [outcome for _, outcome in outcomes]


async def few_at_once(
    running: Iterable[Coroutine[Deferred[Any], Any, Any]], most: int
) -> list[Any]:
    """Do the same as `in_parallel`, with at most `most` coroutines running at a time.

    Starting all calls about a large cloud at the same moment would block the reactor.
    """
    numbered, results = iter(enumerate(running)), {}
    all_started = False

    async def one_after_another() -> None:
        nonlocal all_started
        for number, deferred in numbered:
            results[number] = await deferred
        all_started = True

    def workers() -> Iterator[Coroutine[Deferred[Any], Any, None]]:
        for _ in range(most):
            if all_started:  # calls that are answered at once need no further worker
                return
            yield one_after_another()

    await in_parallel(workers())
    return [results[number] for number in range(len(results))]


class SharedResult(Generic[Result]):
    """A coroutine that starts at once; every caller of `result` gets its result or its error."""

    def __init__(self, running: Coroutine[Deferred[Any], Any, Result]) -> None:
        self._waiting: list[Deferred[Result]] = []
        self.over = False
        """Whether the coroutine has ended."""
        self._outcome: Any = None
        ensureDeferred(running).addBoth(self._end)

    @property
    def failed(self) -> bool:
        """Return whether the coroutine has ended with an error."""
        return self.over and isinstance(self._outcome, Failure)

    async def result(self) -> Result:
        """Return the result or raise the error, after the coroutine has ended."""
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
        for waiter in waiting:
            # A caller that gave up waiting has cancelled its Deferred.
            if not waiter.called:
                waiter.callback(outcome)


async def begun_in_parts(
    items: Sequence[Item],
    begin: Callable[[Item], Deferred[Any]],
    executor: Executor,
    size: int = 250,
) -> list[Deferred[Any]]:
    """Begin all items in order, `size` at a time; return a Deferred for the end of each part.

    Thousands of items would block the reactor together. So it answers others between the parts.
    """
    parts: list[Deferred[Any]] = []
    for at in range(0, len(items), size):
        if at:
            await executor.run(lambda: None)
        begun = [begin(item) for item in items[at : at + size]]
        parts.append(DeferredList(begun, consumeErrors=True))
    return parts
