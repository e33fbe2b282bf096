"""The database schema: its tables, its migrations, and its text as plain SQL.

`python -m merkatd.database.migrations` writes `sql/schema.mysql.sql`.
"""

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
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import CreateIndex, CreateTable

from merkatd.database import repeatable_migrations as _repeatable  # noqa: F401
from merkatd.database.base.schema import METADATA
from merkatd.database.decision_basis import DECISION_SEEDS, STRATEGY_MEMORIES
from merkatd.database.fleets.fleet_store import MEMBERS
from merkatd.database.fleets.group_store import VM_GROUPS
from merkatd.database.fleets.group_vm_store import GROUP_VMS
from merkatd.database.fleets.job_run_store import JOB_RUNS, JOB_SAMPLES
from merkatd.database.fleets.platform_store import DOINGS, PLATFORMS
from merkatd.database.ledger.account_store import ACCOUNTS
from merkatd.database.ledger.budget_store import BUDGETS
from merkatd.database.ledger.charge_store import ARREARS, SHORTFALLS
from merkatd.database.ledger.entry_store import ENTRIES, TRANSACTIONS
from merkatd.database.ledger.note_store import NOTES, ROUNDS
from merkatd.database.ledger.reservation_store import RESERVATIONS
from merkatd.database.ledger.rollup_store import ROLLUPS
from merkatd.database.ledger.tenant_store import GROUPS, TENANTS
from merkatd.database.ledger.usage_store import DETAILS, USES
from merkatd.database.room_price_store import ROOM_PRICES
from merkatd.database.scheduler.bid_store import BIDS, WORDS
from merkatd.database.scheduler.comparison_store import COMPARISONS
from merkatd.database.scheduler.lease_store import LEASES
from merkatd.database.scheduler.limit_order_store import LIMIT_ORDERS
from merkatd.database.scheduler.limit_order_vm_store import LIMIT_ORDER_VMS
from merkatd.database.scheduler.order_store import ORDERS
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.database.scheduler.plan_store import PLANS
from merkatd.database.scheduler.price_store import ALLOCATIONS, PRICES
from merkatd.database.scheduler.step_store import STEPS
from merkatd.database.use_sample_store import USE_SAMPLES
from merkatd.database.vm_history_store import VM_HISTORIES

__all__ = [
    "METADATA",
    "TABLES",
]


TABLES = (
    ACCOUNTS,
    ALLOCATIONS,
    ARREARS,
    BIDS,
    BUDGETS,
    COMPARISONS,
    DECISION_SEEDS,
    DETAILS,
    DOINGS,
    ENTRIES,
    GROUPS,
    GROUP_VMS,
    JOB_RUNS,
    JOB_SAMPLES,
    LEASES,
    LIMIT_ORDERS,
    LIMIT_ORDER_VMS,
    MEMBERS,
    NOTES,
    ORDERS,
    PERIODS,
    PLANS,
    PLATFORMS,
    PRICES,
    RESERVATIONS,
    ROLLUPS,
    ROOM_PRICES,
    ROUNDS,
    SHORTFALLS,
    STEPS,
    STRATEGY_MEMORIES,
    TENANTS,
    TRANSACTIONS,
    USES,
    USE_SAMPLES,
    VM_GROUPS,
    VM_HISTORIES,
    WORDS,
)


HEAD = "head"
BASE = "base"
_WAIT_S = 300
_NO_LOCKS = 1235
"""The server's error for a function that it does not support."""


class SchemaError(RuntimeError):
    """The schema is of an unknown version, or another daemon is changing it."""


def scripts() -> Path:
    """Return the folder of the migrations: `sql` of the checkout, or the installed one."""
    beside = Path(__file__).resolve().parents[2] / "sql"
    if (beside / "env.py").is_file():
        return beside
    return Path(sysconfig.get_path("data")) / "share" / "merkat" / "sql"


def upgrade(engine: sa.Engine, revision: str = HEAD) -> None:
    """Apply the missing migrations: all of them or none.

    MySQL and MariaDB can't do that: there an interrupted upgrade continues at the next start.
    """
    with engine.begin() as connection, lock_schema(connection):
        _refuse_unknown_revision(connection)
        command.upgrade(_configuration(connection), revision)


def downgrade(engine: sa.Engine, revision: str = BASE) -> None:
    """Revert migrations down to this revision."""
    with engine.begin() as connection, lock_schema(connection):
        _refuse_unknown_revision(connection)
        command.downgrade(_configuration(connection), revision)


def revision_of(connection: sa.Connection) -> str | None:
    """Return the revision of the database, None if it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def newest() -> str | None:
    """Return the revision that this version of the code expects."""
    return ScriptDirectory(str(scripts())).get_current_head()


@contextlib.contextmanager
def lock_schema(connection: sa.Connection) -> Iterator[None]:
    """Keep other daemons from changing the schema; on SQLite the transaction does that."""
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
            f"another daemon has been upgrading the database for more than {_WAIT_S} s: try again"
            " when it has finished"
        )
    try:
        yield
    finally:
        if not connection.invalidated:  # the lock ends with the connection that took it
            connection.scalar(sa.select(sa.func.release_lock(name)))


def _refuse_unknown_revision(connection: sa.Connection) -> None:
    present = revision_of(connection)
    known = {script.revision for script in ScriptDirectory(str(scripts())).walk_revisions()}
    if present is not None and present not in known:
        raise SchemaError(
            f"the database has the unknown revision {present}; this version knows revisions up to"
            f" {newest()}: run the version that upgraded it, or a newer one"
        )


def _configuration(connection: sa.Connection) -> Config:
    config = Config()
    # Alembic would take a percent sign for the start of a substitution.
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["metadata"] = METADATA
    return config


PATH = scripts() / "schema.mysql.sql"
_HEAD = """\
-- All tables of Merkat on MySQL and MariaDB, as its migrations create them. The daemon creates
-- missing tables itself. Written by `python -m merkatd.database.migrations`.

"""


def schema() -> str:
    """Return the SQL of all tables and indexes, of the seed, and of the revision."""
    dialect = mysql.dialect()
    parts = []
    for table in METADATA.sorted_tables:
        parts.append(str(CreateTable(table).compile(dialect=dialect)).strip())
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        parts += [str(CreateIndex(index).compile(dialect=dialect)).strip() for index in indexes]
    parts.append(
        "CREATE TABLE alembic_version (\n"
        "\tversion_num VARCHAR(32) NOT NULL, \n"
        "\tCONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)\n)"
    )
    parts.append(f"INSERT INTO alembic_version VALUES ('{newest()}')")  # noqa: S608 - a revision of ours
    parts.append(f"INSERT INTO {DECISION_SEEDS.name} VALUES (1 + FLOOR(RAND() * {1 << 62}))")  # noqa: S608 - our table
    lines = (line.rstrip() for line in ";\n\n".join(parts).splitlines())
    return _HEAD + "\n".join(lines) + ";\n"


def main() -> None:
    """Write the schema file."""
    PATH.write_text(schema())


if __name__ == "__main__":
    main()
