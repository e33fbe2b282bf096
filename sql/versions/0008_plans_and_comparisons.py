"""Tables of plans that need approval, and of comparisons with another scheduler."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0008"
down_revision = "0007"

# Copies of the code's definitions: a migration must not change when the code does.
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
STORAGE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "plans",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("made_s", sa.Double(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("steps", LONG_TEXT, nullable=False),
        sa.Column("who", sa.String(length=64), nullable=True),
        sa.Column("approved_s", sa.Double(), nullable=True),
        sa.Column("ended_s", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_plans"),
        **STORAGE,
    )
    op.create_index("ix_plans_state", "plans", ["state"])

    op.create_table(
        "comparisons",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("vm", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("theirs", sa.String(length=128), nullable=False),
        sa.Column("ours", sa.String(length=128), nullable=True),
        sa.Column("why", LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_comparisons"),
        **STORAGE,
    )
    op.create_index("ix_comparisons_period", "comparisons", ["period"])


def downgrade() -> None:
    """Drop the tables."""
    for name in ("comparisons", "plans"):
        op.drop_table(name)
