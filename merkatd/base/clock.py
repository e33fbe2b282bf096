"""Clocks and executors as they are handed in: protocols, threads, inline execution, the reactor."""

import time
from collections.abc import Callable
from threading import Thread
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred, execute
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

Result = TypeVar("Result")


class Clock(Protocol):
    """A reactor's time, or a virtual one."""

    def seconds(self) -> float:
        """Now."""

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Any:
        """Call it after so many seconds."""


class Executor(Protocol):
    """Runs blocking calls somewhere, so that the reactor goes on."""

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Fires with what the call returns, or fails with what it raises."""


class OwnedExecutor(Executor, Protocol):
    """An executor that its owner watches and ends."""

    @property
    def queued(self) -> int:
        """Calls that wait for their turn."""

    def stop(self) -> None:
        """Give back what was held; nothing may be running."""


class _DaemonThread(Thread):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named, daemon=True)


class DaemonThreads(ThreadPool):
    """A pool whose threads never keep the process alive: a call may hang in a dead server."""

    def __init__(self, size: int, name: str) -> None:
        super().__init__(minthreads=0, maxthreads=size, name=name)

    threadFactory = _DaemonThread  # noqa: N815 - Twisted's name

    def stop(self) -> None:
        """End the threads, without waiting for those whose calls have not returned."""
        self.joined, self.started = True, False
        self._team.quit()


class Threads:
    """A pool of threads for one purpose alone, so that nothing else can use it up."""

    def __init__(self, reactor: IReactorFromThreads, size: int, name: str = "database") -> None:
        self._reactor = reactor
        self._size = size
        self._unfinished = 0
        self._pool = DaemonThreads(size, name)
        self._pool.start()

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Run the call on one of the threads; the result arrives on the reactor's."""
        self._unfinished += 1
        return deferToThreadPool(self._reactor, self._pool, call).addBoth(self._finished)

    @property
    def queued(self) -> int:
        """Calls that wait for a thread; asked on the reactor's, like all the rest."""
        return max(0, self._unfinished - self._size)

    def _finished(self, result: Any) -> Any:
        self._unfinished -= 1
        return result

    def stop(self) -> None:
        """End the threads; wait for them, unless a call has not returned."""
        busy = bool(self._pool.working)
        self._pool.stop()
        if not busy:
            for thread in self._pool.threads:
                thread.join()


class Inline:
    """No threads: the call is over before `run` returns, so that a virtual clock decides all."""

    queued = 0
    """Nobody ever waits."""

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Run the call here and now."""
        return execute(call)

    def stop(self) -> None:
        """Nothing is held."""


def asyncio_reactor() -> Any:
    """Install it; to be called once, before anything has imported the reactor.

    Its time only goes forward. Twisted's own is the wall clock: where that is set back by an hour,
    no call that was planned is made for an hour.
    """
    from twisted.internet import asyncioreactor  # noqa: PLC0415 - installing must come first
    from twisted.internet.main import installReactor  # noqa: PLC0415 - so must this

    class Steady(asyncioreactor.AsyncioSelectorReactor):
        seconds = staticmethod(time.monotonic)

    install: Any = installReactor  # Twisted gives it no type
    install(Steady())
    from twisted.internet import reactor  # noqa: PLC0415 - the one just installed

    return reactor
