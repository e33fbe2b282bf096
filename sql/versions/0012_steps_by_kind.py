"""An index of steps by kind, for queries about migrations, which are few among a day's steps."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the index."""
    op.create_index("ix_steps_kind_planned_s", "steps", ["kind", "planned_s"])


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("ix_steps_kind_planned_s", "steps")
