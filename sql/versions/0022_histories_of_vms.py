"""The last migration of each VM that exists, and whether a step saved it."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

# A copy of the code's definition: a migration must not change when the code does.
STORAGE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}
HISTORIES = sa.table(
    "vm_histories", sa.column("vm"), sa.column("moved_s"), sa.column("saved", sa.Boolean())
)
STEPS = sa.table("steps", *map(sa.column, ("vm", "kind", "state", "ended_s")))


def upgrade() -> None:
    """Create the table, with the migrations that the journal still has."""
    op.create_table(
        "vm_histories",
        sa.Column("vm", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("moved_s", sa.Double(), nullable=True),
        sa.Column("saved", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("vm", name="pk_vm_histories"),
        **STORAGE,
    )
    op.execute(sa.delete(HISTORIES))  # of an interrupted attempt
    moved = (
        sa.select(STEPS.c.vm, sa.func.max(STEPS.c.ended_s), sa.false())
        .where(STEPS.c.kind == "migrate", STEPS.c.state == "confirmed")
        .group_by(STEPS.c.vm)
    )
    op.execute(sa.insert(HISTORIES).from_select(["vm", "moved_s", "saved"], moved))


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("vm_histories")
