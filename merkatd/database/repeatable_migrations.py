"""Repeatable migrations for MySQL and MariaDB: a change that is already made is skipped.

MySQL and MariaDB commit each change of a schema separately. A daemon that dies between two changes
leaves the first ones in place, and the old revision. The next start repeats that migration and must
not fail at the finished changes. A table of the same name with other columns belongs to another
program: creating it still fails.
"""

from typing import Any

import sqlalchemy as sa
from alembic.ddl.mysql import MariaDBImpl, MySQLImpl


class _Repeatable(MySQLImpl):
    """Alembic's implementation for MySQL; defining the class registers it."""

    __dialect__ = "mysql"

    def create_table(self, table: sa.Table, **words: Any) -> None:
        """Create the table, or only its missing indexes."""
        there = _columns(self.connection, table.name)
        if there is None or there != {column.name for column in table.columns}:
            super().create_table(table, **words)
            return
        for index in table.indexes:
            self.create_index(index)

    def create_index(self, index: sa.Index, **words: Any) -> None:
        """Create the index, unless an index of this name over these columns exists."""
        column_names = [column.name for column in index.columns]
        table = index.table.name if index.table is not None else ""
        connection: Any = self.connection
        for existing in sa.inspect(connection).get_indexes(table):
            if (existing["name"], existing["column_names"]) == (index.name, column_names):
                return
        super().create_index(index, **words)

    def add_column(self, table_name: str, column: sa.Column[Any], **words: Any) -> None:
        """Add the column, unless it exists."""
        if column.name not in (_columns(self.connection, table_name) or ()):
            super().add_column(table_name, column, **words)

    def drop_table(self, table: sa.Table, **words: Any) -> None:
        """Drop the table, if it exists."""
        if _columns(self.connection, table.name) is not None:
            super().drop_table(table, **words)

    def drop_column(self, table_name: str, column: sa.Column[Any], **words: Any) -> None:
        """Drop the column, if it exists."""
        if column.name in (_columns(self.connection, table_name) or ()):
            super().drop_column(table_name, column, **words)


class _RepeatableMariaDb(_Repeatable, MariaDBImpl):
    """The same for MariaDB, which Alembic treats as its own dialect."""

    __dialect__ = "mariadb"


def _columns(connection: Any, table: str) -> set[str] | None:
    inspector = sa.inspect(connection)
    if not inspector.has_table(table):
        return None
    return {str(column["name"]) for column in inspector.get_columns(table)}
