"""Limit orders of platforms, in place of their claims."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the platform of a limit order, and drop the claims: nothing reads them any more."""
    op.add_column("limit_orders", sa.Column("platform", sa.BigInteger(), nullable=True))
    op.create_index("ix_limit_orders_platform", "limit_orders", ["platform"], unique=True)
    op.drop_column("platforms", "claim_price")
    op.drop_column("platforms", "claim_units")


def downgrade() -> None:
    """Restore the columns; NULL means no claim."""
    op.add_column("platforms", sa.Column("claim_price", sa.Double(), nullable=True))
    op.add_column("platforms", sa.Column("claim_units", sa.Double(), nullable=True))
    op.drop_index("ix_limit_orders_platform", "limit_orders")
    op.drop_column("limit_orders", "platform")
