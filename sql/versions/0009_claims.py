"""Columns for a platform's claim: the highest CPU price at which it wants to run, and how much."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the columns; NULL means no claim."""
    op.add_column("platforms", sa.Column("claim_price", sa.Double(), nullable=True))
    op.add_column("platforms", sa.Column("claim_units", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("platforms", "claim_price")
    op.drop_column("platforms", "claim_units")
