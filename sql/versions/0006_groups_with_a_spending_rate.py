"""Tables of groups with a spending rate, and of their VMs."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"

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
        "vm_groups",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("owner", sa.Integer(), nullable=False),
        sa.Column("user_group", sa.Integer(), nullable=False),
        sa.Column("permissions", sa.Integer(), nullable=False),
        sa.Column("market", sa.String(length=64), nullable=False),
        sa.Column("template", LONG_TEXT, nullable=False),
        sa.Column("spending_rate", sa.Double(), nullable=False),
        sa.Column("nvm", sa.Integer(), nullable=False),
        sa.Column("ending", sa.Boolean(), nullable=False),
        sa.Column("why", LONG_TEXT, nullable=False),
        sa.Column("created_s", sa.Double(), nullable=False),
        sa.Column("ended_s", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_vm_groups"),
        sa.UniqueConstraint("token", name="uq_vm_groups_token"),
        **STORAGE,
    )
    op.create_index("ix_vm_groups_ended_s", "vm_groups", ["ended_s"])

    op.create_table(
        "vm_group_vms",
        sa.Column("create_key", sa.String(length=64), nullable=False),
        sa.Column("vm_group", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("vm", sa.Integer(), nullable=True),
        sa.Column("leaving", sa.Boolean(), nullable=False),
        sa.Column("gone_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["vm_group"], ["vm_groups.id"], name="fk_vm_group_vms_vm_group"),
        sa.PrimaryKeyConstraint("create_key", name="pk_vm_group_vms"),
        sa.UniqueConstraint("vm", name="uq_vm_group_vms_vm"),
        **STORAGE,
    )
    op.create_index("ix_vm_group_vms_vm_group", "vm_group_vms", ["vm_group"])
    op.create_index("ix_vm_group_vms_gone_s", "vm_group_vms", ["gone_s"])


def downgrade() -> None:
    """Drop the tables."""
    for name in ("vm_group_vms", "vm_groups"):
        op.drop_table(name)
