"""The first tables: accounts, bids, periods, steps, transactions, entries, prices, allocations."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

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
        "accounts",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("balance", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "kind = 'issuance' OR balance >= 0", name=op.f("ck_accounts_only_issuance_owes")
        ),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("kind", "owner", "name", name="uq_accounts_kind"),
        **STORAGE,
    )
    op.create_index("ix_accounts_owner", "accounts", ["owner"])

    op.create_table(
        "bid_words",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("vm", sa.Integer(), nullable=False),
        sa.Column("bid", LONG_TEXT, nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_bid_words"),
        **STORAGE,
    )
    op.create_index("ix_bid_words_at_s", "bid_words", ["at_s"])
    op.create_index("ix_bid_words_vm_at_s", "bid_words", ["vm", "at_s"])

    op.create_table(
        "bids",
        sa.Column("vm", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("bid", LONG_TEXT, nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("template_hash", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("vm", name="pk_bids"),
        **STORAGE,
    )
    op.create_table(
        "periods",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("started_s", sa.Double(), nullable=False),
        sa.Column("observed_s", sa.Double(), nullable=False),
        sa.Column("decided_s", sa.Double(), nullable=True),
        sa.Column("acted_s", sa.Double(), nullable=True),
        sa.Column("charged_s", sa.Double(), nullable=True),
        sa.Column("failed_s", sa.Double(), nullable=True),
        sa.Column("hosts", sa.Integer(), nullable=False),
        sa.Column("vms", sa.Integer(), nullable=False),
        sa.Column("strategy", sa.String(length=64), nullable=True),
        sa.Column("memory", LONG_TEXT, nullable=True),
        sa.Column("failure", LONG_TEXT, nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_periods"),
        **STORAGE,
    )
    op.create_index("ix_periods_started_s", "periods", ["started_s"])
    op.create_index("ix_periods_state", "periods", ["state"])

    op.create_table(
        "transactions",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("reference", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_transactions"),
        sa.UniqueConstraint("reference", name="uq_transactions_reference"),
        **STORAGE,
    )
    op.create_index("ix_transactions_at_s", "transactions", ["at_s"])

    op.create_table(
        "allocations",
        sa.Column("period", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("data", LONG_BLOB, nullable=False),
        sa.ForeignKeyConstraint(["period"], ["periods.number"], name="fk_allocations_period"),
        sa.PrimaryKeyConstraint("period", name="pk_allocations"),
        **STORAGE,
    )
    op.create_table(
        "entries",
        sa.Column("account_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("transaction_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="fk_entries_account_id"),
        sa.ForeignKeyConstraint(
            ["transaction_id"], ["transactions.id"], name="fk_entries_transaction_id"
        ),
        sa.PrimaryKeyConstraint("account_id", "transaction_id", name="pk_entries"),
        **STORAGE,
    )
    op.create_index("ix_entries_transaction_id", "entries", ["transaction_id"])

    op.create_table(
        "prices",
        sa.Column("period", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("market", sa.String(length=64), nullable=False),
        sa.Column("resource", sa.String(length=32), nullable=False),
        sa.Column("price", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["period"], ["periods.number"], name="fk_prices_period"),
        sa.PrimaryKeyConstraint("period", "market", "resource", name="pk_prices"),
        **STORAGE,
    )
    op.create_index("ix_prices_market_period", "prices", ["market", "period"])

    op.create_table(
        "shortfalls",
        sa.Column("period", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("account", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("missing", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name="fk_shortfalls_account"),
        sa.ForeignKeyConstraint(["period"], ["periods.number"], name="fk_shortfalls_period"),
        sa.PrimaryKeyConstraint("period", "account", name="pk_shortfalls"),
        **STORAGE,
    )
    op.create_index("ix_shortfalls_account_period", "shortfalls", ["account", "period"])

    op.create_table(
        "steps",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("period", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("vm", sa.Integer(), nullable=False),
        sa.Column("host", sa.Integer(), nullable=True),
        sa.Column("create_key", sa.String(length=64), nullable=True),
        sa.Column("reason", LONG_TEXT, nullable=False),
        sa.Column("after_steps", LONG_TEXT, nullable=False),
        sa.Column("detail", LONG_TEXT, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("planned_s", sa.Double(), nullable=False),
        sa.Column("sent_s", sa.Double(), nullable=True),
        sa.Column("ended_s", sa.Double(), nullable=True),
        sa.Column("reply", LONG_TEXT, nullable=True),
        sa.Column("outstanding_vm", sa.Integer(), nullable=True),
        sa.Column("live_key", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["period"], ["periods.number"], name="fk_steps_period"),
        sa.PrimaryKeyConstraint("id", name="pk_steps"),
        sa.UniqueConstraint("live_key", name="uq_steps_live_key"),
        sa.UniqueConstraint("outstanding_vm", name="uq_steps_outstanding_vm"),
        **STORAGE,
    )
    op.create_index("ix_steps_create_key", "steps", ["create_key"])
    op.create_index("ix_steps_period_position", "steps", ["period", "position"])
    op.create_index("ix_steps_planned_s", "steps", ["planned_s"])
    op.create_index("ix_steps_state", "steps", ["state"])
    op.create_index("ix_steps_vm_period", "steps", ["vm", "period"])


def downgrade() -> None:
    """Drop the tables, referring ones first."""
    for name in (
        "steps",
        "shortfalls",
        "prices",
        "entries",
        "allocations",
        "transactions",
        "periods",
        "bids",
        "bid_words",
        "accounts",
    ):
        op.drop_table(name)
