"""The shortfalls of plans, and the plans that undo others."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0024"
down_revision = "0023"

# A copy of the code's definition: a migration must not change when the code does.
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    """Add the columns; they are empty for earlier plans."""
    op.add_column("plans", sa.Column("shortfalls", LONG_TEXT, nullable=True))
    op.add_column("plans", sa.Column("reverses", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    op.drop_column("plans", "reverses")
    op.drop_column("plans", "shortfalls")
