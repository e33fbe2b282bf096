"""Migrations and metadata describe the same schema, and a downgrade removes everything."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from merkatd.database import migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.fleets.platform_store import PLATFORMS
from merkatd.database.ledger.account_store import ACCOUNTS
from merkatd.database.migrations import METADATA, TABLES, SchemaError
from tests.lengths import SOAK, shorten
from tests.servers import MariaDb


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """Yield an empty database."""
    made = make_engine(url)
    yield made
    made.dispose()


@pytest.fixture
def sqlite_engine() -> Iterator[sa.Engine]:
    """Yield an empty database in memory."""
    made = make_engine("sqlite://")
    yield made
    made.dispose()


def schema(engine: sa.Engine) -> dict[str, Any]:
    """Return all that the server knows about its tables, except for Alembic's own."""
    inspector = sa.inspect(engine)

    def sorted_by_name(rows: Any) -> list[Any]:
        return sorted((dict(row) for row in rows), key=lambda row: str(row["name"]))

    return {
        name: {
            "columns": [str(column) for column in inspector.get_columns(name)],
            "key": inspector.get_pk_constraint(name),
            "foreign": sorted_by_name(inspector.get_foreign_keys(name)),
            "unique": sorted_by_name(inspector.get_unique_constraints(name)),
            "checks": sorted_by_name(inspector.get_check_constraints(name)),
            "indexes": sorted_by_name(inspector.get_indexes(name)),
        }
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }


def test_the_folder_of_migrations_is_found() -> None:
    """The package finds its own migrations."""
    assert (migrations.scripts() / "env.py").is_file()
    assert migrations.newest() is not None


def test_migrations_lead_to_the_metadata_and_back(engine: sa.Engine) -> None:
    """A migrated database equals one created from the metadata.

    A downgrade leaves nothing, and a second upgrade works.
    """
    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    migrated = schema(engine)
    assert set(migrated) == {table.name for table in TABLES}
    migrations.downgrade(engine)
    assert schema(engine) == {}
    METADATA.create_all(engine)
    assert migrated == schema(engine)
    METADATA.drop_all(engine)
    migrations.upgrade(engine)
    assert migrated == schema(engine)


def test_every_table_is_in_the_comparison() -> None:
    """A table module that is not imported would be missing from the comparison."""
    assert {table.name for table in TABLES} == set(METADATA.tables)


def test_upgrading_a_current_database_changes_nothing(engine: sa.Engine) -> None:
    """A restarted daemon finds its rows unchanged."""
    migrations.upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO bids VALUES (1, '{}', 'default', 0.0, NULL)")
    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM bids").scalar() == 1
        assert migrations.revision_of(connection) == migrations.newest()


def test_a_failed_migration_leaves_nothing_behind(
    sqlite_engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables and those of earlier migrations in the same upgrade are rolled back."""
    copy = tmp_path / "100% sql"
    shutil.copytree(migrations.scripts(), copy)
    (copy / "versions" / "9999_broken.py").write_text(
        "from alembic import op\n"
        "import sqlalchemy as sa\n"
        "revision = '9999'\n"
        f"down_revision = '{migrations.newest()}'\n"
        "def upgrade():\n"
        "    op.create_table('half', sa.Column('id', sa.Integer()))\n"
        "    raise ZeroDivisionError\n"
    )
    monkeypatch.setattr(migrations, "scripts", lambda: copy)
    with pytest.raises(ZeroDivisionError):
        migrations.upgrade(sqlite_engine)
    assert sa.inspect(sqlite_engine).get_table_names() == []


CHANGES = frozenset({"CREATE", "ALTER", "DROP", "INSERT", "UPDATE"})


class PowerCutError(Exception):
    """The process dies here, and the server drops all that is not committed."""


def interrupt_upgrade(engine: sa.Engine, after: int) -> bool:
    """Upgrade the schema; return True if it stopped after `after` changing statements."""
    left = after

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal left
        left -= statement.split(maxsplit=1)[0].upper() in {
            "CREATE",
            "ALTER",
            "DROP",
            "INSERT",
            "UPDATE",
        }
        if left == 0:
            raise PowerCutError

    sa.event.listen(engine, "after_cursor_execute", count)
    try:
        migrations.upgrade(engine)
    except PowerCutError:
        return True
    finally:
        sa.event.remove(engine, "after_cursor_execute", count)
    return False


@pytest.mark.parametrize("first", [1, 2] if SOAK else [1])
def test_a_repeatedly_interrupted_upgrade_completes(mariadb: MariaDb, first: int) -> None:
    """MariaDB commits each change, and the process dies after a few of them each time."""
    engine = make_engine(mariadb.make(f"cut_{first}"))
    assert interrupt_upgrade(engine, first)
    cuts = 1
    while interrupt_upgrade(engine, cuts % 3 + shorten(2, 5)):
        cuts += 1
        assert cuts < 200, "the upgrade makes no progress"
    assert cuts > shorten(20, 10)
    with engine.connect() as connection:
        assert migrations.revision_of(connection) == migrations.newest()
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()
    mariadb.drop(str(engine.url.database))


def test_an_upgrade_continues_after_a_crash_of_the_server(mariadb: MariaDb) -> None:
    """The upgrade raises the original error, not one that follows from it."""
    engine = make_engine(mariadb.make("crashed"))
    done = 0

    def kill(*_: Any) -> None:
        nonlocal done
        done += 1
        if done == 40:
            mariadb.kill()

    sa.event.listen(engine, "before_cursor_execute", kill)
    with pytest.raises(sa.exc.OperationalError, match=r"Lost connection|gone away"):
        migrations.upgrade(engine)
    sa.event.remove(engine, "before_cursor_execute", kill)
    mariadb.start()
    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert migrations.revision_of(connection) == migrations.newest()
    engine.dispose()
    mariadb.drop(str(engine.url.database))


def test_new_applications_have_no_number_of_an_earlier_platform(engine: sa.Engine) -> None:
    """Failed transactions can have put the ids of platforms ahead of those of accounts."""
    migrations.upgrade(engine, "0023")
    platform = {column.name: 0 for column in PLATFORMS.columns if not column.nullable}
    account = {"kind": "tenant", "owner": 1, "name": "", "balance": 0}
    ahead = 40 if engine.dialect.name in {"mysql", "mariadb"} else 1
    with engine.begin() as connection:
        connection.execute(sa.insert(ACCOUNTS), account)
        connection.execute(sa.insert(PLATFORMS), platform | {"id": ahead})
    migrations.upgrade(engine)
    with engine.begin() as connection:
        result = connection.execute(sa.insert(ACCOUNTS), account | {"owner": 2})
        assert result.inserted_primary_key is not None
        assert result.inserted_primary_key[0] > ahead


def test_a_table_of_another_program_is_an_error(mariadb: MariaDb) -> None:
    """A table with the same name and other columns is never taken for Merkat's."""
    engine = make_engine(mariadb.make("foreign_table"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE periods (id INTEGER)")
    with pytest.raises(sa.exc.OperationalError, match="already exists"):
        migrations.upgrade(engine)
    engine.dispose()
    mariadb.drop(str(engine.url.database))


def test_two_daemons_never_change_the_schema_at_once(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second daemon waits for the first, and after some minutes reports the reason."""
    monkeypatch.setattr(migrations, "_WAIT_S", 0)
    engine = make_engine(mariadb.make("twice"))
    with (
        engine.connect() as other,
        migrations.lock_schema(other),
        pytest.raises(SchemaError, match="another daemon"),
    ):
        migrations.upgrade(engine)
    migrations.upgrade(engine)
    engine.dispose()
    mariadb.drop(str(engine.url.database))


def test_a_newer_database_is_left_unchanged(engine: sa.Engine) -> None:
    """The error names the found revision and the way out."""
    migrations.upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(
        SchemaError, match=r"unknown revision 9999; this version knows revisions up to 0"
    ):
        migrations.upgrade(engine)


def test_the_plain_schema_is_current() -> None:
    """`python -m merkatd.database.migrations` shows administrators the tables that are created."""
    assert migrations.PATH.read_text() == migrations.schema()


def test_the_plain_schema_creates_the_same_tables(mariadb: MariaDb) -> None:
    """Tables created by hand equal those of the migrations and are up to date."""
    by_hand, migrated = (make_engine(mariadb.make(name)) for name in ("by_hand", "migrated"))
    with by_hand.begin() as connection:
        for statement in migrations.schema().split(";\n")[:-1]:
            connection.exec_driver_sql(statement.replace("%", "%%"))
    migrations.upgrade(migrated)
    assert schema(by_hand) == schema(migrated)
    migrations.upgrade(by_hand)
    with by_hand.connect() as connection:
        assert migrations.revision_of(connection) == migrations.newest()
    for engine in (by_hand, migrated):
        engine.dispose()
        mariadb.drop(str(engine.url.database))
