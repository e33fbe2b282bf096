"""A column for the time of a tenant's retirement, after OpenNebula's user was removed."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column; NULL means an active tenant."""
    op.add_column("tenants", sa.Column("retired_s", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop the column: retired tenants become active again."""
    op.drop_column("tenants", "retired_s")
