"""An index for questions about migrations: they are few among the steps of a day."""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the index."""
    op.create_index("ix_steps_kind_planned_s", "steps", ["kind", "planned_s"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("ix_steps_kind_planned_s", "steps")
