"""Tables of tenants, weights, budgets, rounds, notes, arrears, and the charges of VMs."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"

# Copies of the code's definitions: a migration must not change when the code does.
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
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


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "arrears",
        sa.Column("vm", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("periods", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("vm", name="pk_arrears"),
        **STORAGE,
    )
    op.create_table(
        "budgets",
        sa.Column("account", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("initial", sa.BigInteger(), nullable=False),
        sa.Column("replenishment", sa.BigInteger(), nullable=False),
        sa.Column("opened_s", sa.Double(), nullable=False),
        sa.Column("ended_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name="fk_budgets_account"),
        sa.PrimaryKeyConstraint("account", name="pk_budgets"),
        **STORAGE,
    )
    op.create_table(
        "details",
        sa.Column("period", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("folded", sa.Boolean(), nullable=False),
        sa.Column("data", LONG_BLOB, nullable=False),
        sa.ForeignKeyConstraint(["period"], ["periods.number"], name="fk_details_period"),
        sa.PrimaryKeyConstraint("period", name="pk_details"),
        **STORAGE,
    )
    op.create_index("ix_details_folded_period", "details", ["folded", "period"])

    op.create_table(
        "notes",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("who", sa.String(length=128), nullable=False),
        sa.Column("owner", sa.Integer(), nullable=True),
        sa.Column("text", LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notes"),
        **STORAGE,
    )
    op.create_index("ix_notes_kind_at_s", "notes", ["kind", "at_s"])
    op.create_index("ix_notes_owner", "notes", ["owner"])

    op.create_table(
        "rollups",
        sa.Column("period", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("period", name="pk_rollups"),
        **STORAGE,
    )
    op.create_table(
        "rounds",
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "number", name="pk_rounds"),
        **STORAGE,
    )
    op.create_table(
        "tenant_groups",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tenant_groups"),
        **STORAGE,
    )
    op.create_table(
        "tenants",
        sa.Column("owner", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=True),
        sa.Column("group_id", sa.Integer(), nullable=True),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.Column("met_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name="pk_tenants"),
        **STORAGE,
    )
    op.create_table(
        "uses",
        sa.Column("account", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("vm", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("cpu_s", sa.Double(), nullable=False),
        sa.Column("memory_s", sa.Double(), nullable=False),
        sa.Column("cpu_cost", sa.BigInteger(), nullable=False),
        sa.Column("memory_cost", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name="fk_uses_account"),
        sa.PrimaryKeyConstraint("account", "day", "vm", name="pk_uses"),
        **STORAGE,
    )
    op.create_index("ix_uses_day", "uses", ["day"])


def downgrade() -> None:
    """Drop the tables."""
    for name in (
        "uses",
        "tenants",
        "tenant_groups",
        "rounds",
        "rollups",
        "notes",
        "details",
        "budgets",
        "arrears",
    ):
        op.drop_table(name)
