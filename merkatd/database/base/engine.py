"""The SQLAlchemy engine of a database URL, with the settings of SQLite and MariaDB.

Python's SQLite driver begins transactions by itself, and late: two transactions that first read and
then write would block each other. This module disables that. A transaction that may write takes
the write lock at its start, so that the rows it reads stay unchanged until it commits. Transactions
that only read see the last committed state and block nothing.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import PoolProxiedConnection, StaticPool

_ONLY_READS = "merkat_only_reads"
"""The mark of a connection whose next transaction only reads."""
PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    # NORMAL would lose the last commits when the power fails.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)
_PRIMARY = 0xFF
"""The bits of an extended result code that are the primary code."""


def is_memory(url: sa.URL) -> bool:
    """Return whether the database is in memory, and so in a single connection."""
    return url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}


def prepare(engine: sa.Engine) -> None:
    """Make commits durable and begin transactions explicitly, on every connection."""
    if not is_memory(engine.url) and engine.url.database:
        Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)
    event.listen(engine, "connect", _connected)
    # A listener to the event "begin" would make each statement look for listeners.
    engine.dialect.do_begin = _begin  # type: ignore[assignment]


@contextmanager
def begin(engine: sa.Engine, *, reading: bool = False) -> Iterator[sa.Connection]:
    """Yield a connection in a transaction, which is committed if no error is raised.

    `reading`: the transaction only reads; on SQLite it does not take the write lock.
    """
    with engine.connect() as connection:
        if reading and engine.dialect.name == "sqlite":
            connection.info[_ONLY_READS] = True
        with connection.begin():
            yield connection


def is_busy(error: BaseException) -> bool:
    """Return whether SQLite gave up waiting for the lock of another connection."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _connected(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin(connection: PoolProxiedConnection) -> None:
    driver: Any = connection.dbapi_connection
    reading = connection.info.pop(_ONLY_READS, False)
    driver.execute("BEGIN" if reading else "BEGIN IMMEDIATE")


_HOW = {
    "pymysql": "MySQL and MariaDB need the Python package pymysql: pip install 'merkat[mysql]'",
}
SILENCE_S = 75.0
"""Seconds without an answer after which a connection is closed and the transaction is retried.

A server without power, or a firewall that forgot the connection, sends no error. The limit must
exceed the 50 s for which a transaction waits for a lock at most.
"""
IDLE_S = 30
"""Seconds without a query after which MariaDB closes a connection with an open transaction.

Otherwise the transaction of a daemon whose machine failed would keep its locks for hours, and with
them the lease.
"""
_CONNECT_S = 10
_CACHED_STATEMENTS = 512
"""Number of statements that SQLite keeps compiled: a period runs more than the driver's 128."""
_UNKNOWN_VARIABLE = 1193


class MissingDriverError(RuntimeError):
    """The database's Python driver is not installed; the message names it."""


def make_engine(url: str, connections: int = 4, silence_s: float | None = None) -> sa.Engine:
    """Return an engine with at most `connections` connections, one per thread that uses it.

    A connection to MariaDB fails after `silence_s` without an answer. Raise MissingDriverError.
    """
    parsed = sa.make_url(url)
    options: dict[str, Any] = {
        "pool_size": connections,
        "max_overflow": 0,
        "pool_pre_ping": True,
        "pool_recycle": 1800,
    }
    if parsed.get_driver_name() == "pymysql":
        limits = {"read_timeout": silence_s, "write_timeout": silence_s}
        options["connect_args"] = {"connect_timeout": _CONNECT_S} | limits
    if parsed.get_backend_name() == "sqlite":
        options["connect_args"] = {"cached_statements": _CACHED_STATEMENTS}
    if is_memory(parsed):
        connect = {**options["connect_args"], "check_same_thread": False}
        options = {"poolclass": StaticPool, "connect_args": connect}
    # Errors are logged, and parameters may contain tenants' secrets, as VM templates do.
    try:
        engine = sa.create_engine(parsed, hide_parameters=True, **options)
    except ModuleNotFoundError as error:
        driver = error.name or ""
        how = _HOW.get(driver, f"the Python package {driver} is not installed")
        raise MissingDriverError(f"database.url = {parsed!r}: {how}") from None
    if parsed.get_backend_name() == "sqlite":
        prepare(engine)
    elif parsed.get_driver_name() == "pymysql":
        sa.event.listen(engine, "connect", _bound)
    return engine


def _bound(connection: Any, _record: Any) -> None:
    """Let the server end idle transactions. MySQL lacks this variable."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SET SESSION idle_transaction_timeout = {IDLE_S:d}")
        except Exception as error:
            if error.args[:1] != (_UNKNOWN_VARIABLE,):
                raise


def connections_of(engine: sa.Engine, wanted: int) -> int:
    """Return the number of threads that may use the engine at a time."""
    return 1 if is_memory(engine.url) else wanted
