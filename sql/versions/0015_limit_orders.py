"""Tables of limit orders, of their VMs, and of the prices of room for quotes of orders."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0015"
down_revision = "0014"

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
        "limit_orders",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("owner", sa.Integer(), nullable=False),
        sa.Column("limit_credits", sa.Double(), nullable=False),
        sa.Column("least_run_s", sa.Double(), nullable=False),
        sa.Column("factor", sa.Double(), nullable=False),
        sa.Column("stated_s", sa.Double(), nullable=False),
        sa.Column("runs", sa.Boolean(), nullable=False),
        sa.Column("since_s", sa.Double(), nullable=True),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("why", LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_limit_orders"),
        sqlite_autoincrement=True,
        **STORAGE,
    )
    op.create_index("ix_limit_orders_owner", "limit_orders", ["owner"])

    op.create_table(
        "limit_order_vms",
        sa.Column("vm", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("limit_order", sa.BigInteger(), nullable=True),
        sa.Column("saved", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["limit_order"], ["limit_orders.id"], name="fk_limit_order_vms_limit_order"
        ),
        sa.PrimaryKeyConstraint("vm", name="pk_limit_order_vms"),
        **STORAGE,
    )
    op.create_index("ix_limit_order_vms_limit_order", "limit_order_vms", ["limit_order"])

    op.create_table(
        "room_prices",
        sa.Column("period", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("market", sa.String(length=64), nullable=False),
        sa.Column("resource", sa.String(length=32), nullable=False),
        sa.Column("capacity", sa.Double(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.Column("reserve", sa.Double(), nullable=False),
        sa.Column("prices", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["period"], ["periods.number"], name="fk_room_prices_period"),
        sa.PrimaryKeyConstraint("period", "market", "resource", name="pk_room_prices"),
        **STORAGE,
    )
    op.create_index("ix_room_prices_market_period", "room_prices", ["market", "period"])


def downgrade() -> None:
    """Drop the tables."""
    for name in ("room_prices", "limit_order_vms", "limit_orders"):
        op.drop_table(name)
