"""The database for code that must not block: transactions on threads, retries, metrics."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from merkatd.base.backoff import Backoff
from merkatd.base.clock import Clock, OwnedExecutor, Threads
from merkatd.base.deferreds import wait_seconds
from merkatd.database import migrations
from merkatd.database.base import engine as engine_module
from merkatd.database.base.engine import SILENCE_S, MissingDriverError, connections_of, make_engine
from merkatd.database.base.transactions import is_transient

Result = TypeVar("Result")
Work = Callable[[sa.Connection], Result]

OF_PERIODS = 2
"""Number of threads and connections reserved for periods and the lease."""
BACKOFF = Backoff(first_s=0.05, longest_s=2.0, retries=5)
"""The waits before a transaction is run again."""
_BOUND = (sa.Connection, sa.Result, sa.Row)
"""Types that belong to a transaction and its thread, and are invalid afterwards."""


class ClosedError(RuntimeError):
    """The database is closed or closing."""


class UnavailableError(RuntimeError):
    """The database can't be opened; the message states its URL and the reason."""


class Database:
    """Runs functions of a connection, each in its own transaction.

    A transaction is committed when its function returns and rolled back when it raises. After a
    transient error, such as a deadlock, the whole function is run again. So it must only read and
    write through its connection, and a repetition must do no harm: the connection can fail after
    the commit and before its confirmation.
    """

    def __init__(
        self,
        engine: sa.Engine,
        executor: OwnedExecutor,
        clock: Clock,
        rng: np.random.Generator,
        backoff: Backoff = BACKOFF,
        first: OwnedExecutor | None = None,
    ) -> None:
        """`first` runs the transactions of `self.first`, so that they don't queue behind others."""
        self._engine = engine
        self._executor = executor
        self._own = first
        self.first = ReservedDatabase(self, first or executor)
        """The same database on the threads of periods and the lease."""
        self._clock = clock
        self._rng = rng
        self._backoff = backoff
        self._log = Logger()
        self._open = True
        self.answered = 0
        """Number of transactions that the database answered, including those rolled back."""
        self.failed = 0
        """Number of transactions that failed after all retries."""
        self._running = 0
        self._idle: list[Deferred[None]] = []

    @classmethod
    async def open(
        cls,
        url: str,
        reactor: Any,
        rng: np.random.Generator,
        connections: int = 4,
        backoff: Backoff = BACKOFF,
        before: Callable[[Self], Awaitable[None]] | None = None,
    ) -> Self:
        """Open the database of a URL and upgrade its schema.

        `before` runs first; if it raises, the schema stays unchanged. Raise UnavailableError or
        SchemaError.
        """
        try:
            engine = make_engine(url, connections + OF_PERIODS, SILENCE_S)
        except MissingDriverError as error:
            raise UnavailableError(str(error)) from None
        executor = Threads(reactor, connections_of(engine, connections))
        # A database in memory has a single connection and so needs a single thread.
        single = engine_module.is_memory(engine.url)
        first = None if single else Threads(reactor, OF_PERIODS, name="periods")
        opened = cls(engine, executor, reactor, rng, backoff, first)
        try:
            if before is not None:
                await before(opened)
            # The retries also wait for a server that is still starting, as after a power cut.
            await opened._retried("migrations", lambda: _upgrade(engine), executor)
        except BaseException as error:
            opened._stop()
            engine.dispose()
            if isinstance(error, sa.exc.DBAPIError):
                raise UnavailableError(f"{engine.url!r}: {error.orig}") from None
            raise
        return opened

    async def run(self, work: Work[Result]) -> Result:
        """Return the result of `work` after its transaction is committed."""
        return await self.counted(work, self._executor)

    async def read(self, work: Work[Result]) -> Result:
        """Return the result of `work`, which reads one consistent state and must not write."""
        return await self.counted(work, self._executor, reading=True)

    @property
    def under_way(self) -> int:
        """Return the number of transactions that run or wait for a connection."""
        return self._running

    @property
    def queued(self) -> int:
        """Return the number of transactions that wait for a connection."""
        return self._executor.queued + (0 if self._own is None else self._own.queued)

    async def close(self) -> None:
        """Refuse new transactions, wait for the running ones, and close every connection."""
        self._open = False
        try:
            while self._running:
                waiting: Deferred[None] = Deferred()
                self._idle.append(waiting)
                await waiting
            await self._executor.run(self._engine.dispose)
        finally:  # also if the caller cancelled, because the server does not answer
            self._stop()

    def _stop(self) -> None:
        self._executor.stop()
        if self._own is not None:
            self._own.stop()

    async def counted(
        self, work: Work[Result], executor: OwnedExecutor, *, reading: bool = False
    ) -> Result:
        """Run `work` in a transaction on this executor, count it, and return its result."""
        if not self._open:
            raise ClosedError("the database is closed; nothing more can be read or written")
        self._running += 1
        caller = _Caller()
        try:
            result = await self._retried(
                _name(work),
                lambda: transaction(self._engine, work, caller, reading=reading),
                executor,
            )
        except BaseException as error:
            # The caller may have been cancelled while a thread still runs the work.
            caller.gone = True
            if _answered(error):
                self.answered += 1
            else:
                self.failed += 1
            raise
        else:
            self.answered += 1
            return result
        finally:
            self._running -= 1
            if not self._running:
                waiting, self._idle = self._idle, []
                for waiter in waiting:
                    waiter.callback(None)

    async def _retried(
        self, name: str, call: Callable[[], Result], executor: OwnedExecutor
    ) -> Result:
        failures = 0
        while True:
            try:
                return await executor.run(call)
            except Exception as error:
                failures += 1
                if self._backoff.is_over(failures) or not is_transient(error):
                    raise
                wait_s = self._backoff.wait_s(failures, float(self._rng.random()))
                self._log.info(
                    "Transaction {work} failed and is retried in {wait_s:.3f} s: {error}",
                    work=name,
                    wait_s=wait_s,
                    error=str(error),
                    attempt=failures,
                )
            await wait_seconds(self._clock, wait_s)


class ReservedDatabase:
    """The database on reserved threads, because tenants' reads may occupy all others."""

    def __init__(self, database: Database, executor: OwnedExecutor) -> None:
        self._database = database
        self._executor = executor

    async def run(self, work: Work[Result]) -> Result:
        """Return the result of `work` after its transaction is committed."""
        return await self._database.counted(work, self._executor)

    async def read(self, work: Work[Result]) -> Result:
        """Return the result of `work`, which reads one consistent state and must not write."""
        return await self._database.counted(work, self._executor, reading=True)


def _upgrade(engine: sa.Engine) -> None:
    """Upgrade the schema, without a time limit: a large table may take MariaDB many minutes."""
    if engine.dialect.name == "sqlite":
        migrations.upgrade(engine)
        return
    patient = make_engine(engine.url.render_as_string(hide_password=False), 1)
    try:
        migrations.upgrade(patient)
    finally:
        patient.dispose()


def _answered(error: BaseException) -> bool:
    """Return whether the work itself raised the error, and not the database."""
    no_answer = (sa.exc.SQLAlchemyError, CancelledError, ClosedError)
    return isinstance(error, Exception) and not isinstance(error, no_answer)


def _name(work: object) -> str:
    """Return the work's name for the log, without its arguments: they may contain secrets."""
    while isinstance(work, partial):
        work = work.func
    name: str = getattr(work, "__qualname__", type(work).__qualname__)
    return name


class _Caller:
    """Tells the thread of a transaction whether its caller still waits."""

    gone = False


class _GivenUpError(Exception):
    """The caller no longer waits, so the transaction is rolled back."""


def transaction(
    engine: sa.Engine,
    work: Work[Result],
    caller: _Caller | None = None,
    *,
    reading: bool = False,
) -> Result:
    """Run `work` in a transaction, blocking and without retries, and return its result.

    `reading`: the work only reads. If the caller is gone, roll back: it got an error for want of an
    answer, and may have sent its request again.
    """
    asked = caller or _Caller()
    _raise_if_gone(asked)
    with engine_module.begin(engine, reading=reading) as connection:
        _raise_if_gone(asked)
        result = work(connection)
        _raise_if_gone(asked)
        if isinstance(result, _BOUND):
            raise TypeError(
                f"a transaction can't return a {type(result).__name__}, which is invalid outside"
                " its thread: return plain values"
            )
        return result


def _raise_if_gone(caller: _Caller) -> None:
    if caller.gone:
        raise _GivenUpError
