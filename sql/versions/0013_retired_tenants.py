"""When a tenant was retired: its user is not among OpenNebula's users any more."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column; no tenant is retired yet."""
    op.add_column("tenants", sa.Column("retired_s", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop it: retired tenants count as tenants again."""
    op.drop_column("tenants", "retired_s")
