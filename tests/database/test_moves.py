"""Queries for migrations read only migrations, however many limits are stored."""

from typing import Any

import sqlalchemy as sa

from merkatd.database.base.engine import make_engine
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler import migration_history


def test_only_migrations_and_switches_are_read() -> None:
    """Each query uses the index of kind and time."""
    engine = make_engine("sqlite://")
    METADATA.create_all(engine)
    asked: list[tuple[str, Any]] = []

    def note(_c: object, _u: object, statement: str, parameters: object, *_: object) -> None:
        asked.append((statement, parameters))

    with engine.connect() as connection:
        sa.event.listen(engine, "before_cursor_execute", note)
        migration_history.recent(connection, 1e9)
        list(migration_history._confirmed(connection, "migrate", 0.0, {1, 2}))
        of_hosts = {"kinds": ["sleep", "wake"], "since_s": 0.0, "hosts": [1, 2]}
        connection.execute(migration_history._SWITCHED_OF, of_hosts)
        sa.event.remove(engine, "before_cursor_execute", note)
        selects = [statement for statement in asked if statement[0].startswith("SELECT")]
        assert len(selects) == 6
        for statement, parameters in selects:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            (read, *_) = [str(row.detail) for row in plan]
            assert "ix_steps_kind_planned_s (kind=? AND planned_s>?)" in read
    engine.dispose()
