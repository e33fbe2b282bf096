"""Tables of virtual platforms, their VMs, and the actions on them."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"

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
        "platforms",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("token", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("account", sa.BigInteger(), nullable=True),
        sa.Column("template", LONG_TEXT, nullable=False),
        sa.Column("vm_templates", LONG_TEXT, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("why", LONG_TEXT, nullable=False),
        sa.Column("needs", LONG_TEXT, nullable=False),
        sa.Column("ending", sa.String(length=16), nullable=True),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("submitted_s", sa.Double(), nullable=False),
        sa.Column("since_s", sa.Double(), nullable=False),
        sa.Column("started_s", sa.Double(), nullable=True),
        sa.Column("deadline_s", sa.Double(), nullable=True),
        sa.Column("sizes", LONG_TEXT, nullable=False),
        sa.Column("report", LONG_TEXT, nullable=True),
        sa.Column("memory", LONG_TEXT, nullable=True),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name="fk_platforms_account"),
        sa.PrimaryKeyConstraint("id", name="pk_platforms"),
        sa.UniqueConstraint("token", name="uq_platforms_token"),
        **STORAGE,
    )
    op.create_index("ix_platforms_state", "platforms", ["state"])
    op.create_index("ix_platforms_owner", "platforms", ["owner"])

    op.create_table(
        "platform_vms",
        sa.Column("create_key", sa.String(length=64), nullable=False),
        sa.Column("platform", sa.BigInteger(), nullable=False),
        sa.Column("cluster", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("vm", sa.Integer(), nullable=True),
        sa.Column("leaving", sa.Boolean(), nullable=False),
        sa.Column("gone_s", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["platform"], ["platforms.id"], name="fk_platform_vms_platform"),
        sa.PrimaryKeyConstraint("create_key", name="pk_platform_vms"),
        sa.UniqueConstraint("vm", name="uq_platform_vms_vm"),
        **STORAGE,
    )
    op.create_index("ix_platform_vms_platform", "platform_vms", ["platform"])
    op.create_index("ix_platform_vms_gone_s", "platform_vms", ["gone_s"])

    op.create_table(
        "platform_doings",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("platform", sa.BigInteger(), nullable=False),
        sa.Column("at_s", sa.Double(), nullable=False),
        sa.Column("who", sa.String(length=128), nullable=False),
        sa.Column("what", sa.String(length=16), nullable=False),
        sa.Column("text", LONG_TEXT, nullable=False),
        sa.Column("action", sa.String(length=64), nullable=True),
        sa.Column("refused", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["platform"], ["platforms.id"], name="fk_platform_doings_platform"),
        sa.PrimaryKeyConstraint("id", name="pk_platform_doings"),
        sa.UniqueConstraint("platform", "action", name="uq_platform_doings_platform"),
        **STORAGE,
    )


def downgrade() -> None:
    """Drop the tables."""
    for name in ("platform_doings", "platform_vms", "platforms"):
        op.drop_table(name)
