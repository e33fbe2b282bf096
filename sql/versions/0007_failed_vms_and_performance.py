"""Columns for the time of a platform VM's failure, and for the performance set by the tenant."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns; NULL means the performance of the template."""
    op.add_column("platforms", sa.Column("performance", sa.Double(), nullable=True))
    op.add_column("platform_vms", sa.Column("failed_s", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("platforms", "performance")
    op.drop_column("platform_vms", "failed_s")
