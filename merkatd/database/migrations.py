"""The schema brought to where the code expects it, and back."""

import contextlib
import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

# Alembic goes by what is defined there.
from merkatd.database import repeatable as _repeatable  # noqa: F401
from merkatd.database.tables import METADATA

HEAD = "head"
BASE = "base"
_WAIT_S = 300
_NO_LOCKS = 1235
"""The server's error: it does not support this yet."""


class SchemaError(RuntimeError):
    """The database was made by a version that this one doesn't know, or another one changes it."""


def scripts() -> Path:
    """The folder of the migrations: `sql` beside the package in a checkout, or as installed."""
    beside = Path(__file__).resolve().parents[2] / "sql"
    if (beside / "env.py").is_file():
        return beside
    return Path(sysconfig.get_path("data")) / "share" / "merkat" / "sql"


def upgrade(engine: sa.Engine, revision: str = HEAD) -> None:
    """Apply the migrations that are missing: all of them or none.

    MySQL and MariaDB can't do that. There an upgrade that is interrupted goes on at the next start.
    """
    with engine.begin() as connection, alone(connection):
        _refuse_the_unknown(connection)
        command.upgrade(_configuration(connection), revision)


def downgrade(engine: sa.Engine, revision: str = BASE) -> None:
    """Take migrations back until this revision is reached."""
    with engine.begin() as connection, alone(connection):
        _refuse_the_unknown(connection)
        command.downgrade(_configuration(connection), revision)


def revision_of(connection: sa.Connection) -> str | None:
    """The revision of the database, None while it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def newest() -> str | None:
    """The revision that this version of the code expects."""
    return ScriptDirectory(str(scripts())).get_current_head()


@contextlib.contextmanager
def alone(connection: sa.Connection) -> Iterator[None]:
    """Let no other daemon change the schema meanwhile; with SQLite its transaction does that."""
    if connection.dialect.name == "sqlite":
        yield
        return
    database = (connection.engine.url.database or "").encode()
    name = f"merkat-schema-{hashlib.sha256(database).hexdigest()[:32]}"
    try:
        taken = connection.scalar(sa.select(sa.func.get_lock(name, _WAIT_S)))
    except sa.exc.DBAPIError as error:
        if error.orig is None or error.orig.args[:1] != (_NO_LOCKS,):
            raise
        yield  # a Galera cluster has no such locks
        return
    if taken != 1:
        raise SchemaError(
            f"another daemon has been bringing the database up to date for {_WAIT_S} s: try again"
            " when it has done that"
        )
    try:
        yield
    finally:
        if not connection.invalidated:  # the lock ends with the connection that took it
            connection.scalar(sa.select(sa.func.release_lock(name)))


def _refuse_the_unknown(connection: sa.Connection) -> None:
    present = revision_of(connection)
    known = {script.revision for script in ScriptDirectory(str(scripts())).walk_revisions()}
    if present is not None and present not in known:
        raise SchemaError(
            f"the database is at revision {present}, which this version doesn't know (its newest"
            f" is {newest()}): run the version that made it, or a newer one"
        )


def _configuration(connection: sa.Connection) -> Config:
    config = Config()
    # A percent sign would be taken for the start of a substitution.
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["metadata"] = METADATA
    return config
