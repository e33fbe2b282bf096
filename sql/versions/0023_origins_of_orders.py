"""Where each administrator's order came from."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Add the column; it is empty for earlier orders."""
    op.add_column("orders", sa.Column("origin", sa.String(64), server_default="", nullable=False))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("orders", "origin")
