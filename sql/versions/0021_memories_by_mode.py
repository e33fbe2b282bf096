"""Memories of the modes that watch, beside those that act; the random numbers of a plan."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0021"
down_revision = "0020"

# Copies of the code's definitions: a migration must not change when the code does.
LONG_BLOB = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
STORAGE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}
NAMES = ("market", "strategy", "version", "period", "data")
MEMORIES = sa.table("strategy_memories", *map(sa.column, NAMES))
BY_MODE = sa.table("strategy_memories", sa.column("watches", sa.Boolean()), *map(sa.column, NAMES))


def upgrade() -> None:
    """Make the table of memories anew with another key, and add the column of plans.

    If MySQL or MariaDB is interrupted between two changes, strategies begin without a memory.
    """
    op.add_column("plans", sa.Column("drawn", sa.Integer(), nullable=True))
    rows = _rows()
    op.drop_table("strategy_memories")
    _create(sa.Column("watches", sa.Boolean(), nullable=False))
    if rows:
        op.get_bind().execute(sa.insert(BY_MODE), [{**row, "watches": False} for row in rows])


def downgrade() -> None:
    """Drop the column, and the memories of the modes that watch."""
    connection = op.get_bind()
    if "watches" in _columns():
        connection.execute(sa.delete(BY_MODE).where(BY_MODE.c.watches))
    rows = _rows()
    op.drop_table("strategy_memories")
    _create()
    if rows:
        connection.execute(sa.insert(MEMORIES), rows)
    op.drop_column("plans", "drawn")


def _create(*key: sa.Column[Any]) -> None:
    op.create_table(
        "strategy_memories",
        sa.Column("market", sa.String(64), nullable=False),
        *key,
        sa.Column("strategy", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("data", LONG_BLOB, nullable=False),
        sa.PrimaryKeyConstraint(
            "market", *(column.name for column in key), name="pk_strategy_memories"
        ),
        **STORAGE,
    )


def _rows() -> list[dict[str, Any]]:
    """Return the memories; none if the last attempt has dropped the table."""
    if not _columns():
        return []
    return [dict(row) for row in op.get_bind().execute(sa.select(MEMORIES)).mappings()]


def _columns() -> set[str]:
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table("strategy_memories"):
        return set()
    return {str(column["name"]) for column in inspector.get_columns("strategy_memories")}
