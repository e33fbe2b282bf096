"""Database: the one door to stored things for code that must not block."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from merkatd.base.clock import OwnedExecutor, Threads
from merkatd.base.deferreds import Time
from merkatd.database import migrations
from merkatd.database.base import engine as engine_module
from merkatd.database.base.engine import SILENCE_S, MissingDriverError, connections_of, make_engine
from merkatd.database.base.transactions import Retries, is_transient

Result = TypeVar("Result")
Work = Callable[[sa.Connection], Result]

OF_PERIODS = 2
"""Threads and connections of periods and the lease, apart from those of all others."""
_BOUND = (sa.Connection, sa.Result, sa.Row)
"""What belongs to a thread and its transaction, and is of no use after them."""


class ClosedError(RuntimeError):
    """The database was closed, or is about to be."""


class UnavailableError(RuntimeError):
    """The database can't be opened; the message says where it should be, and why not."""


class Database:
    """Runs functions of a connection, each inside one transaction of its own.

    A transaction is committed when its function returns and rolled back when it raises.
    Where it fails because of others, the whole function is run again: it must do nothing
    but read and write through its connection, and be harmless when repeated, since the
    connection can be lost after the commit and before its confirmation.
    """

    def __init__(
        self,
        engine: sa.Engine,
        executor: OwnedExecutor,
        clock: Time,
        rng: np.random.Generator,
        retries: Retries | None = None,
        first: OwnedExecutor | None = None,
    ) -> None:
        """`first` runs the transactions of `self.first`, which then wait behind no others."""
        self._engine = engine
        self._reader = engine.execution_options(**{engine_module.READ_ONLY: True})
        self._executor = executor
        self._own = first
        self.first = First(self, first or executor)
        """The same database, for periods and the lease."""
        self._clock = clock
        self._rng = rng
        self._retries = retries or Retries()
        self._log = Logger()
        self._open = True
        self.answered = 0
        """Transactions that the database answered, rolled back ones included."""
        self.failed = 0
        """Transactions that the database did not answer or refused, after all retries."""
        self._running = 0
        self._idle: list[Deferred[None]] = []

    @classmethod
    async def open(
        cls,
        url: str,
        reactor: Any,
        rng: np.random.Generator,
        connections: int = 4,
        retries: Retries | None = None,
        before: Callable[[Self], Awaitable[None]] | None = None,
    ) -> Self:
        """The database behind the URL, its schema brought up to date, on its own threads.

        `before` comes first; where it raises, the schema stays as it is.
        Raises UnavailableError, SchemaError.
        """
        try:
            engine = make_engine(url, connections + OF_PERIODS, SILENCE_S)
        except MissingDriverError as error:
            raise UnavailableError(str(error)) from None
        executor = Threads(reactor, connections_of(engine, connections))
        # A database in memory has a single connection, and so a single thread.
        single = engine_module.is_memory(engine.url)
        first = None if single else Threads(reactor, OF_PERIODS, name="periods")
        opened = cls(engine, executor, reactor, rng, retries, first)
        try:
            if before is not None:
                await before(opened)
            # A server that is being started, as after a power cut, is waited for.
            await opened._retried("migrations", lambda: _upgrade(engine), executor)
        except BaseException as error:
            opened._stop()
            engine.dispose()
            if isinstance(error, sa.exc.DBAPIError):
                raise UnavailableError(f"{engine.url!r}: {error.orig}") from None
            raise
        return opened

    async def run(self, work: Work[Result]) -> Result:
        """What `work` returns, once its transaction is committed."""
        return await self.counted(work, self._executor)

    async def read(self, work: Work[Result]) -> Result:
        """What `work` returns, from one consistent state; it must not write."""
        return await self.counted(work, self._executor, reading=True)

    @property
    def under_way(self) -> int:
        """Transactions that are neither, those that wait for a connection among them."""
        return self._running

    @property
    def queued(self) -> int:
        """Those that wait for a connection."""
        return self._executor.queued + (0 if self._own is None else self._own.queued)

    async def close(self) -> None:
        """Refuse new work, wait for what is in hand, and let go of every connection."""
        self._open = False
        try:
            while self._running:
                waiting: Deferred[None] = Deferred()
                self._idle.append(waiting)
                await waiting
            await self._executor.run(self._engine.dispose)
        finally:  # also where the caller waits no longer, because the server does not answer
            self._stop()

    def _stop(self) -> None:
        self._executor.stop()
        if self._own is not None:
            self._own.stop()

    async def counted(
        self, work: Work[Result], executor: OwnedExecutor, *, reading: bool = False
    ) -> Result:
        """Return what `work` returns, from a transaction on this executor."""
        engine = self._reader if reading else self._engine
        if not self._open:
            raise ClosedError("the database is closed; nothing more can be read or written")
        self._running += 1
        caller = _Caller()
        try:
            result = await self._retried(
                _name(work), lambda: transaction(engine, work, caller), executor
            )
        except BaseException as error:
            # Also where the caller was cancelled: a thread may hold the work still.
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
                for one in waiting:
                    one.callback(None)

    async def _retried(
        self, name: str, call: Callable[[], Result], executor: OwnedExecutor
    ) -> Result:
        attempt = 1
        while True:
            try:
                return await executor.run(call)
            except Exception as error:
                if attempt >= self._retries.attempts or not is_transient(error):
                    raise
                wait_s = self._retries.wait_s(attempt, float(self._rng.random()))
                self._log.info(
                    "Transaction {work} is run again in {wait_s:.3f} s: {error}",
                    work=name,
                    wait_s=wait_s,
                    error=str(error),
                    attempt=attempt,
                )
            await _passed(self._clock, wait_s)
            attempt += 1


class First:
    """A database whose transactions wait behind no others: tenants' reads may take all threads."""

    def __init__(self, database: Database, executor: OwnedExecutor) -> None:
        self._database = database
        self._executor = executor

    async def run(self, work: Work[Result]) -> Result:
        """What `work` returns, once its transaction is committed."""
        return await self._database.counted(work, self._executor)

    async def read(self, work: Work[Result]) -> Result:
        """What `work` returns, from one consistent state; it must not write."""
        return await self._database.counted(work, self._executor, reading=True)


def _upgrade(engine: sa.Engine) -> None:
    """Bring the schema up to date; a large table may take MariaDB many minutes."""
    if engine.dialect.name == "sqlite":
        migrations.upgrade(engine)
        return
    patient = make_engine(engine.url.render_as_string(hide_password=False), 1)
    try:
        migrations.upgrade(patient)
    finally:
        patient.dispose()


def _answered(error: BaseException) -> bool:
    """Return whether the work itself raised the error, so that the database did its part."""
    no_answer = (sa.exc.SQLAlchemyError, CancelledError, ClosedError)
    return isinstance(error, Exception) and not isinstance(error, no_answer)


def _name(work: object) -> str:
    """What a log may say of it: never what it was given, which may hold tenants' secrets."""
    while isinstance(work, partial):
        work = work.func
    name: str = getattr(work, "__qualname__", type(work).__qualname__)
    return name


def _passed(clock: Time, seconds: float) -> Deferred[None]:
    """Fires after so many seconds of the clock."""
    waiting: Deferred[None] = Deferred(lambda _: call.cancel())
    call = clock.callLater(seconds, waiting.callback, None)
    return waiting


class _Caller:
    """Whether the caller of a transaction still waits for it; read by the thread that runs it."""

    gone = False


class _GivenUpError(Exception):
    """The caller waits no longer: nothing is stored."""


def transaction(engine: sa.Engine, work: Work[Result], caller: _Caller | None = None) -> Result:
    """What `work` returns, committed; the blocking form, without retries.

    Nothing is stored once the caller is gone; it was told that it got no answer, and may have
    asked again.
    """
    asked = caller or _Caller()
    _raise_if_gone(asked)
    with engine.begin() as connection:
        _raise_if_gone(asked)
        result = work(connection)
        _raise_if_gone(asked)
        if isinstance(result, _BOUND):
            raise TypeError(
                f"a transaction may not hand out a {type(result).__name__}: it dies with its"
                " thread; return plain values"
            )
        return result


def _raise_if_gone(caller: _Caller) -> None:
    if caller.gone:
        raise _GivenUpError
