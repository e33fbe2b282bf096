"""A column for comparisons of moves: the VM's earlier host."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the column; NULL means a placement, as all comparisons until now."""
    op.add_column("comparisons", sa.Column("source", sa.String(128), nullable=True))


def downgrade() -> None:
    """Drop the column, and the moves too: without it they would count as placements."""
    op.execute("DELETE FROM comparisons WHERE source IS NOT NULL")
    op.drop_column("comparisons", "source")
