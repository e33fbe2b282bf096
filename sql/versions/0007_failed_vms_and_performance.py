"""When a platform's VM was found to have failed, and the performance that its tenant wants now."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns; until somebody changes it, the performance is the template's."""
    op.add_column("platforms", sa.Column("performance", sa.Double(), nullable=True))
    op.add_column("platform_vms", sa.Column("failed_s", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("platforms", "performance")
    op.drop_column("platform_vms", "failed_s")
