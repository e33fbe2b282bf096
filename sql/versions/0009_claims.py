"""The price up to which a platform wants to run, and how much CPU, as its controller said last."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the columns; who has said nothing claims nothing."""
    op.add_column("platforms", sa.Column("claim_price", sa.Double(), nullable=True))
    op.add_column("platforms", sa.Column("claim_units", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("platforms", "claim_price")
    op.drop_column("platforms", "claim_units")
