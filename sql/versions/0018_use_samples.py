"""A table of the newest samples of use."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0018"
down_revision = "0017"

# Copies of the code's definitions: a migration must not change when the code does.
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
    """Create the table; the next periods fill it."""
    op.create_table(
        "use_samples",
        sa.Column("at_s", sa.Double(), autoincrement=False, nullable=False),
        sa.Column("data", LONG_BLOB, nullable=False),
        sa.PrimaryKeyConstraint("at_s", name="pk_use_samples"),
        **STORAGE,
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("use_samples")
