"""Tables of the lease and of administrators' orders."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

# Copies of the code's definitions: a migration must not change when the code does.
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
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
        "leases",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=128), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
        **STORAGE,
    )
    op.create_table(
        "orders",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("what", sa.String(length=16), nullable=False),
        sa.Column("host", sa.Integer(), nullable=False),
        sa.Column("who", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_orders"),
        **STORAGE,
    )
    op.create_index("ix_orders_host", "orders", ["host"])


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("orders")
    op.drop_table("leases")
