"""Comparisons of moves beside those of placements: where the VM was before."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the column; what was compared until now were placements."""
    op.add_column("comparisons", sa.Column("source", sa.String(128), nullable=True))


def downgrade() -> None:
    """Drop it, and the moves with it: they would be taken for placements."""
    op.execute("DELETE FROM comparisons WHERE source IS NOT NULL")
    op.drop_column("comparisons", "source")
