"""${message}."""

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Upgrade the schema to this revision."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Revert the schema to the revision before."""
    ${downgrades if downgrades else "pass"}
