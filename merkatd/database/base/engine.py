"""The engine behind a URL; everything that is said to SQLite alone.

Python's driver begins transactions by itself, and late: two readers that both go on to
write would then refuse each other. Here the driver is told to keep its hands off, and each
transaction that may write takes the lock at its start, so that what it reads stays true
until it commits. Readers see the last committed state and hold nobody up.
"""

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import StaticPool

READ_ONLY = "merkat_read_only"
"""The execution option of a connection that promises not to write."""
PRAGMAS = (
    "PRAGMA busy_timeout = 5000",
    "PRAGMA journal_mode = WAL",
    # NORMAL would lose the last commits when the power fails.
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)
_PRIMARY = 0xFF
"""The bits of an extended result code that hold the primary one."""


def is_memory(url: sa.URL) -> bool:
    """Whether the database lives in memory, and so in a single connection."""
    return url.get_backend_name() == "sqlite" and url.database in {None, "", ":memory:"}


def prepare(engine: sa.Engine) -> None:
    """Make every connection durable and every transaction say when it begins."""
    if not is_memory(engine.url) and engine.url.database:
        Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)
    event.listen(engine, "connect", _connected)
    event.listen(engine, "begin", _begun)


def is_busy(error: BaseException) -> bool:
    """Whether SQLite gave up waiting for somebody else's lock."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def _connected(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begun(connection: sa.Connection) -> None:
    reading = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


_HOW = {
    "pymysql": "MySQL and MariaDB need the Python package pymysql: pip install 'merkat[mysql]'",
}
SILENCE_S = 75.0
"""A connection to a server that says nothing for so long is given up, and the work begun anew.

Nothing may tell that the other end is gone: a machine without power, a firewall that has forgotten
the connection. A transaction waits for a lock for 50 s at most.
"""
IDLE_S = 30
"""After so long without a word in an open transaction MariaDB ends the connection.

The transaction of a daemon whose machine is gone would keep its locks for hours, and with them the
lease.
"""
_CONNECT_S = 10
_UNKNOWN_VARIABLE = 1193


class MissingDriverError(RuntimeError):
    """The database's Python module is not installed; the message says which."""


def make_engine(url: str, connections: int = 4, silence_s: float | None = None) -> sa.Engine:
    """An engine with at most so many connections, one to each thread that uses it.

    A MariaDB that says nothing for `silence_s` is given up. Raises MissingDriverError.
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
    if is_memory(parsed):
        options = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
    # Errors are logged, and what is stored may hold tenants' secrets: VMs' templates do.
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
    """Let the server end a transaction whose client says nothing. MySQL can't do that."""
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"SET SESSION idle_transaction_timeout = {IDLE_S:d}")
        except Exception as error:
            if error.args[:1] != (_UNKNOWN_VARIABLE,):
                raise


def connections_of(engine: sa.Engine, wanted: int) -> int:
    """How many threads may use the engine at a time."""
    return 1 if is_memory(engine.url) else wanted
