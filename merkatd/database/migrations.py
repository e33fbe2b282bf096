"""The schema brought to where the code expects it, and back."""

import sysconfig
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from merkatd.database.tables import METADATA

HEAD = "head"
BASE = "base"


class SchemaError(RuntimeError):
    """The database was made by a version that this one doesn't know."""


def scripts() -> Path:
    """The folder of the migrations: `sql` beside the package in a checkout, or as installed."""
    beside = Path(__file__).resolve().parents[2] / "sql"
    if (beside / "env.py").is_file():
        return beside
    return Path(sysconfig.get_path("data")) / "share" / "merkat" / "sql"


def upgrade(engine: sa.Engine, revision: str = HEAD) -> None:
    """Apply the migrations that are missing, all of them or none."""
    with engine.begin() as connection:
        _refuse_the_unknown(connection)
        command.upgrade(_configuration(connection), revision)


def downgrade(engine: sa.Engine, revision: str = BASE) -> None:
    """Take migrations back until this revision is reached."""
    with engine.begin() as connection:
        _refuse_the_unknown(connection)
        command.downgrade(_configuration(connection), revision)


def revision_of(connection: sa.Connection) -> str | None:
    """The revision of the database, None while it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def newest() -> str | None:
    """The revision that this version of the code expects."""
    return ScriptDirectory(str(scripts())).get_current_head()


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
