"""SQLite databases with the newest schema, in memory or in a file: copies of a migrated one."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from merkatd.database import migrations
from merkatd.database.base.engine import make_engine

_COMPILED: dict[Any, Any] = {}


def migrated() -> sa.Engine:
    """Return the engine of a new database."""
    engine = make_engine("sqlite://")
    # All databases share the compiled statements, which belong to a dialect.
    engine.dialect = _first().dialect
    engine.update_execution_options(compiled_cache=_COMPILED)
    load(engine, _template())
    return engine


def load(engine: sa.Engine, content: bytes) -> None:
    """Replace the content of a database in memory."""
    with _connection(engine) as connection:
        connection.deserialize(content)


def content_of(engine: sa.Engine) -> bytes:
    """Return the content of a database in memory."""
    with _connection(engine) as connection:
        return connection.serialize()


def copy_migrated(path: Path) -> None:
    """Write a new database to this file."""
    path.write_bytes(_template())


@cache
def _first() -> sa.Engine:
    engine = make_engine("sqlite://")
    engine.connect().close()  # the first connection completes the dialect
    return engine


@cache
def _template() -> bytes:
    engine = make_engine("sqlite://")
    migrations.upgrade(engine)
    content = content_of(engine)
    engine.dispose()
    return content


@contextmanager
def _connection(engine: sa.Engine) -> Iterator[sqlite3.Connection]:
    raw = engine.raw_connection()
    try:
        assert isinstance(raw.driver_connection, sqlite3.Connection)
        yield raw.driver_connection
    finally:
        raw.close()
