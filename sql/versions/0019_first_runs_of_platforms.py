"""The time when a platform's VMs first ran."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the column; for platforms that have run, the time of their start is near enough."""
    op.add_column("platforms", sa.Column("first_ran_s", sa.Double(), nullable=True))
    names = ("state", "started_s", "first_ran_s")
    platforms = sa.table("platforms", *(sa.column(name) for name in names))
    op.execute(
        sa.update(platforms)
        .where(platforms.c.state.in_(("running", "suspending", "suspended", "resuming")))
        .values(first_ran_s=platforms.c.started_s)
    )


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("platforms", "first_ran_s")
