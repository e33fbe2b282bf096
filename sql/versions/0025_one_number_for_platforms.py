"""New applications get ids that no earlier platform has: a platform's id is its application's."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

PLATFORMS = sa.table("platforms", sa.column("id"))


def upgrade() -> None:
    """Let the ids of accounts go on after the highest id of a platform.

    SQLite gives every platform an account with a higher id. MariaDB and MySQL don't reuse the ids
    of transactions that failed, so that platforms may be ahead.
    """
    connection = op.get_bind()
    if connection.dialect.name in {"mysql", "mariadb"}:
        highest = int(connection.scalar(sa.select(sa.func.max(PLATFORMS.c.id))) or 0)
        op.execute(sa.text(f"ALTER TABLE accounts AUTO_INCREMENT = {highest + 1:d}"))


def downgrade() -> None:
    """Change nothing: the database goes on after the highest id in any case."""
