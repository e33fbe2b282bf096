"""Columns for the daily use of network and disk, and for its charges."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

NAMES = ("network_s", "disk_s", "network_cost", "disk_cost")


def upgrade() -> None:
    """Add the columns; existing rows get 0."""
    for name in NAMES:
        kind: sa.types.TypeEngine[object] = sa.BigInteger() if "cost" in name else sa.Double()
        op.add_column("uses", sa.Column(name, kind, nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop the columns."""
    for name in NAMES:
        op.drop_column("uses", name)
