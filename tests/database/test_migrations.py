"""Migrations and metadata describe the same schema, and the way back is clean."""

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
from merkatd.database.migrations import METADATA, TABLES, SchemaError
from tests.servers import MariaDb


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    """A database with nothing in it."""
    made = make_engine(url)
    yield made
    made.dispose()


@pytest.fixture
def sqlite_engine() -> Iterator[sa.Engine]:
    """The same in memory."""
    made = make_engine("sqlite://")
    yield made
    made.dispose()


def schema(engine: sa.Engine) -> dict[str, Any]:
    """All that the server knows about its tables, apart from the migrations' own."""
    found = sa.inspect(engine)

    def sorted_by_name(rows: Any) -> list[Any]:
        return sorted((dict(row) for row in rows), key=lambda row: str(row["name"]))

    return {
        name: {
            "columns": [str(column) for column in found.get_columns(name)],
            "key": found.get_pk_constraint(name),
            "foreign": sorted_by_name(found.get_foreign_keys(name)),
            "unique": sorted_by_name(found.get_unique_constraints(name)),
            "checks": sorted_by_name(found.get_check_constraints(name)),
            "indexes": sorted_by_name(found.get_indexes(name)),
        }
        for name in found.get_table_names()
        if name != "alembic_version"
    }


def test_the_folder_of_migrations_is_found() -> None:
    """The package finds what it was made with."""
    assert (migrations.scripts() / "env.py").is_file()
    assert migrations.newest() is not None


def test_migrations_lead_to_the_metadata(engine: sa.Engine) -> None:
    """A database that was migrated and one made from the metadata can't be told apart."""
    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    migrated = schema(engine)
    migrations.downgrade(engine)
    METADATA.create_all(engine)
    assert migrated == schema(engine)
    assert set(migrated) == {table.name for table in TABLES}


def test_every_table_is_known() -> None:
    """A table family that nobody imports would silently be left out of the comparison."""
    assert {table.name for table in TABLES} == set(METADATA.tables)


def test_up_and_down_and_up_again(engine: sa.Engine) -> None:
    """The way down leaves nothing, and the way up can be gone again."""
    for _ in range(2):
        migrations.upgrade(engine)
        assert schema(engine) != {}
        migrations.downgrade(engine)
        assert schema(engine) == {}


def test_upgrading_what_is_up_to_date_does_nothing(engine: sa.Engine) -> None:
    """A daemon that starts again finds its rows where they were."""
    migrations.upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("INSERT INTO bids VALUES (1, '{}', 'default', 0.0, NULL)")
    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM bids").scalar() == 1
        assert migrations.revision_of(connection) == migrations.newest()


def test_a_migration_that_fails_leaves_nothing_behind(
    sqlite_engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its own tables nor those of the migrations that ran before it in one go."""
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
    """The process dies here, and what the server has not committed is gone."""


def interrupted(engine: sa.Engine, after: int) -> bool:
    """Bring the schema up to date; whether that was cut after so many statements that change it."""
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


@pytest.mark.parametrize("first", [1, 2])
def test_an_upgrade_that_is_interrupted_again_and_again_goes_on(
    mariadb: MariaDb, first: int
) -> None:
    """MariaDB commits each change: after two to four of them the process dies each time."""
    engine = make_engine(mariadb.make(f"cut_{first}"))
    assert interrupted(engine, first)
    cuts = 1
    while interrupted(engine, 2 + cuts % 3):
        cuts += 1
        assert cuts < 200, "it goes round in circles"
    assert cuts > 20
    with engine.connect() as connection:
        assert migrations.revision_of(connection) == migrations.newest()
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()
    mariadb.drop(str(engine.url.database))


def test_an_upgrade_goes_on_after_a_crash_of_the_server(mariadb: MariaDb) -> None:
    """And the first error is told, not one that follows from it."""
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


def test_another_programs_table_is_not_taken_for_ours(mariadb: MariaDb) -> None:
    """It has our table's name, and other columns."""
    engine = make_engine(mariadb.make("foreign_table"))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE periods (id INTEGER)")
    with pytest.raises(sa.exc.OperationalError, match="already exists"):
        migrations.upgrade(engine)
    engine.dispose()
    mariadb.drop(str(engine.url.database))


def test_two_daemons_do_not_change_the_schema_at_once(
    mariadb: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits for the first; after some minutes it says what it waits for."""
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


def test_a_newer_database_is_left_alone(engine: sa.Engine) -> None:
    """The refusal says which revision was found and what to do."""
    migrations.upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(
        SchemaError, match=r"unknown revision 9999; this version knows revisions up to 0"
    ):
        migrations.upgrade(engine)


def test_the_plain_schema_is_current() -> None:
    """`python -m merkatd.database.migrations` shows administrators the tables that are made."""
    assert migrations.PATH.read_text() == migrations.schema()


def test_the_plain_schema_makes_the_same_tables(mariadb: MariaDb) -> None:
    """An administrator who made them by hand has what the migrations make, and it is up to date."""
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
