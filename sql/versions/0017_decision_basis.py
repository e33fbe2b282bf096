"""Tables of the strategies' memories and of the cloud's seed, in place of the memory of periods."""

import json
import secrets
import zlib
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0017"
down_revision = "0016"

# Copies of the code's definitions: a migration must not change when the code does.
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
LONG_BLOB = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
STORAGE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}
PERIODS = sa.table(
    "periods",
    sa.column("number", sa.Integer()),
    sa.column("strategy", sa.String()),
    sa.column("memory", sa.Text()),
)


def upgrade() -> None:
    """Create the tables, draw the seed, and carry the newest memories over."""
    memories = op.create_table(
        "strategy_memories",
        sa.Column("market", sa.String(64), nullable=False),
        sa.Column("strategy", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("data", LONG_BLOB, nullable=False),
        sa.PrimaryKeyConstraint("market", name="pk_strategy_memories"),
        **STORAGE,
    )
    seeds = op.create_table(
        "decision_seeds",
        sa.Column("seed", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("seed", name="pk_decision_seeds"),
        **STORAGE,
    )
    connection = op.get_bind()
    if connection.scalar(sa.select(sa.func.count()).select_from(seeds)) == 0:
        connection.execute(sa.insert(seeds), {"seed": secrets.randbits(62)})
    connection.execute(sa.delete(memories))
    if rows := _newest(connection):
        connection.execute(sa.insert(memories), rows)
    op.drop_column("periods", "memory")


def downgrade() -> None:
    """Restore the column; strategies begin without a memory."""
    op.add_column("periods", sa.Column("memory", LONG_TEXT, nullable=True))
    op.drop_table("decision_seeds")
    op.drop_table("strategy_memories")


def _newest(connection: sa.Connection) -> list[dict[str, Any]]:
    """Return a row for each market's memory; none if the last attempt has dropped the column."""
    if "memory" not in {column["name"] for column in sa.inspect(connection).get_columns("periods")}:
        return []
    newest = connection.execute(
        sa.select(PERIODS.c.number, PERIODS.c.strategy, PERIODS.c.memory)
        .where(PERIODS.c.memory.is_not(None))
        .order_by(PERIODS.c.number.desc())
        .limit(1)
    ).one_or_none()
    if newest is None:
        return []
    number, strategies, text = newest
    by_market: dict[str, dict[str, Any]] = json.loads(text)
    pairs = zip(by_market.items(), strategies.split("+"), strict=False)
    return [
        {
            "market": market,
            "strategy": strategy,
            "version": 1,
            "period": number,
            "data": _packed(memory),
        }
        for (market, memory), strategy in pairs
        if memory.pop("version", 1) == 1 and memory
    ]


def _packed(memory: dict[str, Any]) -> bytes:
    """Return the memory as `merkatd.database.decision_basis` reads it."""
    text = json.dumps(memory, separators=(",", ":")).encode()
    header = json.dumps([["", "|u1", [len(text)]]], separators=(",", ":")).encode()
    length = len(header).to_bytes(4, "little")
    return b"MKA1" + zlib.compress(length + header + text, 0)
