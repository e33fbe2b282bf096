"""Arrears count intervals, of which a short period is a part."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Make room for parts; what was counted so far stays."""
    _change(sa.Integer(), sa.Double())


def downgrade() -> None:
    """Take whole intervals again."""
    _change(sa.Double(), sa.Integer())


def _change(old: sa.types.TypeEngine[float], new: sa.types.TypeEngine[float]) -> None:
    with op.batch_alter_table("arrears") as batch:
        batch.alter_column("periods", existing_type=old, type_=new, existing_nullable=False)
