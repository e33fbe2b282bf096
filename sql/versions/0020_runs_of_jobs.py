"""Tables of jobs' runs and of the samples of those that are not over."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0020"
down_revision = "0019"

# Copies of the code's definitions: a migration must not change when the code does.
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
STORAGE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}


def upgrade() -> None:
    """Create the tables; the runs of platforms that live now begin with the next period."""
    op.create_table(
        "job_runs",
        sa.Column("platform", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.Integer(), nullable=False),
        sa.Column("template", sa.String(64), nullable=False),
        sa.Column("ended_s", sa.Double(), nullable=True),
        sa.Column("ran_s", sa.Double(), nullable=False),
        sa.Column("cpu_s", sa.Double(), nullable=False),
        sa.Column("memory_mib", sa.Double(), nullable=False),
        sa.Column("done", sa.Double(), nullable=True),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("sampled_s", sa.Double(), nullable=False),
        sa.Column("every_s", sa.Double(), nullable=False),
        sa.Column("finished", LONG_TEXT, nullable=False),
        sa.Column("stages", LONG_TEXT, nullable=False),
        sa.Column("profile", LONG_TEXT, nullable=False),
        sa.Column("from_runs", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["platform"], ["platforms.id"], name="fk_job_runs_platform"),
        sa.PrimaryKeyConstraint("platform", name="pk_job_runs"),
        **STORAGE,
    )
    op.create_index("ix_job_runs_owner_template", "job_runs", ["owner", "template"])
    op.create_index("ix_job_runs_ended_s", "job_runs", ["ended_s"])
    op.create_table(
        "job_samples",
        sa.Column("platform", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ran_s", sa.Double(), autoincrement=False, nullable=False),
        sa.Column("cpu_s", sa.Double(), nullable=False),
        sa.Column("memory_mib", sa.Double(), nullable=False),
        sa.Column("done", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["platform"], ["platforms.id"], name="fk_job_samples_platform"),
        sa.PrimaryKeyConstraint("platform", "ran_s", name="pk_job_samples"),
        **STORAGE,
    )


def downgrade() -> None:
    """Drop the tables."""
    op.drop_table("job_samples")
    op.drop_table("job_runs")
