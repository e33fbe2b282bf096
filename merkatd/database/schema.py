"""What all tables have in common: names of constraints, storage, types that differ by server."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

Columns = TypeVar("Columns", bound=sa.TypedColumns)
Item = TypeVar("Item")

METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A number that the server gives: SQLite only counts in columns that are called INTEGER."""

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
LONG_BLOB = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
"""Up to 16 MiB, where MySQL's own TEXT and BLOB hold 64 KiB at most."""

STORAGE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}
"""Names and references are compared byte by byte, as SQLite does without being told."""

CHUNK = 500
"""How many values an IN list may hold: far below the limits of every server."""


def table(name: str, columns: type[Columns], *more: sa.schema.SchemaItem) -> sa.Table[Columns]:
    """A table of the common metadata, stored alike on every server."""
    return sa.Table(name, METADATA, columns, *more, **STORAGE)


def chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """The items in pieces that fit into an IN list."""
    for first in range(0, len(items), CHUNK):
        yield items[first : first + CHUNK]
