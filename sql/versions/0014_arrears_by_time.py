"""Arrears as parts of intervals: a short period counts as a part of an interval."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Allow fractions; existing counts stay."""
    _change(sa.Integer(), sa.Double())


def downgrade() -> None:
    """Allow only whole intervals."""
    _change(sa.Double(), sa.Integer())


def _change(old: sa.types.TypeEngine[float], new: sa.types.TypeEngine[float]) -> None:
    with op.batch_alter_table("arrears") as batch:
        batch.alter_column("periods", existing_type=old, type_=new, existing_nullable=False)
