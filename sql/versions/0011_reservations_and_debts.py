"""Reserved parts of balances, debts of owners, and arrears by owner instead of by VM."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

# Copies of the code's definitions: a migration must not change when the code does.
STORAGE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def upgrade() -> None:
    """Add columns and tables; nothing is reserved, and earlier shortfalls become no debts."""
    for name in ("reserved", "debt"):
        column = sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)
        op.add_column("accounts", column)
    op.create_index("ix_accounts_debt", "accounts", ["debt"])
    op.create_table(
        "reservations",
        sa.Column("period", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("account", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["period"], ["periods.number"], name="fk_reservations_period"),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name="fk_reservations_account"),
        sa.PrimaryKeyConstraint("period", "account", name="pk_reservations"),
        **STORAGE,
    )
    op.create_index("ix_reservations_account", "reservations", ["account"])
    op.drop_table("arrears")
    _arrears("owner")


def downgrade() -> None:
    """Drop columns and tables; arrears start again from zero."""
    op.drop_table("arrears")
    _arrears("vm")
    op.drop_table("reservations")
    op.drop_index("ix_accounts_debt", "accounts")
    op.drop_column("accounts", "debt")
    op.drop_column("accounts", "reserved")


def _arrears(key: str) -> None:
    op.create_table(
        "arrears",
        sa.Column(key, sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("periods", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint(key, name="pk_arrears"),
        **STORAGE,
    )
