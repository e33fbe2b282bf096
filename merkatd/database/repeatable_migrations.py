"""Migrations that were interrupted go on: what is there already as it is wanted is left as it is.

MySQL and MariaDB commit each change of a schema by itself. A start that dies between two of them
leaves the first ones behind, and the revision from which it came. The next start repeats that
migration, and must not stumble over what the one before it did. A table of the same name with
other columns is another program's: the server refuses that as it always did.
"""

from typing import Any

import sqlalchemy as sa
from alembic.ddl.mysql import MariaDBImpl, MySQLImpl


class _Repeatable(MySQLImpl):
    """MySQL, as Alembic changes its schemas; it is registered by being defined."""

    __dialect__ = "mysql"

    def create_table(self, table: sa.Table, **words: Any) -> None:
        """Make the table, or only those of its indexes that are missing."""
        there = _columns(self.connection, table.name)
        if there is None or there != {column.name for column in table.columns}:
            super().create_table(table, **words)
            return
        for index in table.indexes:
            self.create_index(index)

    def create_index(self, index: sa.Index, **words: Any) -> None:
        """Make the index, unless there is one of this name over these columns."""
        wanted = [column.name for column in index.columns]
        table = index.table.name if index.table is not None else ""
        connection: Any = self.connection
        for one in sa.inspect(connection).get_indexes(table):
            if (one["name"], one["column_names"]) == (index.name, wanted):
                return
        super().create_index(index, **words)

    def add_column(self, table_name: str, column: sa.Column[Any], **words: Any) -> None:
        """Add the column, unless the table has it."""
        if column.name not in (_columns(self.connection, table_name) or ()):
            super().add_column(table_name, column, **words)

    def drop_table(self, table: sa.Table, **words: Any) -> None:
        """Drop the table, unless it is gone."""
        if _columns(self.connection, table.name) is not None:
            super().drop_table(table, **words)

    def drop_column(self, table_name: str, column: sa.Column[Any], **words: Any) -> None:
        """Drop the column, unless it is gone."""
        if column.name in (_columns(self.connection, table_name) or ()):
            super().drop_column(table_name, column, **words)


class _RepeatableMariaDb(_Repeatable, MariaDBImpl):
    """The same under MariaDB's own name."""

    __dialect__ = "mariadb"


def _columns(connection: Any, table: str) -> set[str] | None:
    found = sa.inspect(connection)
    if not found.has_table(table):
        return None
    return {str(one["name"]) for one in found.get_columns(table)}
