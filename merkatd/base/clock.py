"""Clocks and executors: their protocols, thread pools, inline execution, the reactor.

Other modules get them as arguments, so that tests and the simulator can replace them.
"""

import time
from collections.abc import Callable
from threading import Thread
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, execute
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

Result = TypeVar("Result")


class DelayedCall(Protocol):
    """The used part of Twisted's IDelayedCall: a call that is scheduled for later."""

    def active(self) -> bool:
        """Return whether the call is still due."""

    def cancel(self) -> None:
        """Cancel the call."""


class Clock(Protocol):
    """The used part of IReactorTime: any reactor, or a `twisted.internet.task.Clock`."""

    def seconds(self) -> float:
        """Return the current time in seconds."""

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Any:
        """Return the `DelayedCall` that calls `call` after `delay` seconds."""


class ThreadClock(Clock, Protocol):
    """A clock that any thread may read, and the way back from other threads to the reactor's."""

    def callFromThread(  # noqa: N802 - Twisted's name
        self, call: Callable[..., object], /, *arguments: object
    ) -> object:
        """Call a function on the reactor's thread."""


class Executor(Protocol):
    """A place that runs blocking calls, so that they do not block the reactor."""

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Return a Deferred that fires with the call's result, or fails with its exception."""


class OwnedExecutor(Executor, Protocol):
    """An executor that its owner measures and stops."""

    @property
    def queued(self) -> int:
        """Return the number of calls that wait for a thread."""

    def stop(self) -> None:
        """Release the threads; no call may be running."""


class _DaemonThread(Thread):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named, daemon=True)


class DaemonThreads(ThreadPool):
    """A thread pool that never keeps the process alive: a call may hang at a dead server."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__(minthreads=0, maxthreads=size, name=name)

    threadFactory = _DaemonThread  # noqa: N815 - Twisted's name

    def stop(self) -> None:
        """Stop the threads without waiting for calls that have not returned."""
        self.joined, self.started = True, False
        self._team.quit()


class Threads:
    """A thread pool for a single purpose, so that no other work can occupy all its threads."""

    def __init__(self, reactor: IReactorFromThreads, size: int, name: str = "database") -> None:
        self._reactor = reactor
        self._size = size
        self._unfinished = 0
        self._pool = DaemonThreads(size, name)
        self._pool.start()

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Run the call on a thread of the pool; the result arrives on the reactor's thread."""
        self._unfinished += 1
        return deferToThreadPool(self._reactor, self._pool, call).addBoth(self._finished)

    @property
    def queued(self) -> int:
        """Return the number of waiting calls. Like `run`, use it on the reactor's thread only."""
        return max(0, self._unfinished - self._size)

    def _finished(self, result: Any) -> Any:
        self._unfinished -= 1
        return result

    def stop(self) -> None:
        """Stop the threads; wait for their end unless a call is still running."""
        busy = bool(self._pool.working)
        self._pool.stop()
        if not busy:
            for thread in self._pool.threads:
                thread.join()


class Inline:
    """An executor without threads: `run` returns after the call, so a virtual clock decides all."""

    queued = 0
    """Always 0: no call ever waits."""

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Run the call at once, on the caller's thread."""
        return execute(call)

    def stop(self) -> None:
        """Do nothing: there is nothing to release."""


def asyncio_reactor() -> Any:
    """Install and return the asyncio reactor; call this once, before any import of the reactor.

    The time of this reactor never goes back. Twisted's default is the wall clock: if that is set
    back by an hour, no scheduled call runs for an hour.
    """
    from twisted.internet import asyncioreactor  # noqa: PLC0415 - installing must come first
    from twisted.internet.main import installReactor  # noqa: PLC0415 - so must this

    class Steady(asyncioreactor.AsyncioSelectorReactor):
        seconds = staticmethod(time.monotonic)

    install: Any = installReactor  # Twisted gives it no type
    install(Steady())
    from twisted.internet import reactor  # noqa: PLC0415 - the one just installed

    return reactor
