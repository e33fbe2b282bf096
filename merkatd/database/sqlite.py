"""Everything that is said to SQLite alone.

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
