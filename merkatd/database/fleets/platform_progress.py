"""Short readings of living platforms: ids, templates, and the progress without any texts."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from merkatd.base.quantities import bounded_or_none
from merkatd.database.base.schema import chunks
from merkatd.database.fleets.platform_store import OVER, PLATFORMS

_LIVING_IDS = (
    sa.select(PLATFORMS.c.id).where(PLATFORMS.c.state.not_in(OVER)).order_by(PLATFORMS.c.id)
)
_TEMPLATES = sa.select(PLATFORMS.c.id, PLATFORMS.c.template).where(
    PLATFORMS.c.id.in_(sa.bindparam("ids", expanding=True))
)
_PROGRESS = (
    sa.select(
        *(PLATFORMS.c.id, PLATFORMS.c.account, PLATFORMS.c.submitted_s),
        *(PLATFORMS.c.first_ran_s, PLATFORMS.c.deadline_s, PLATFORMS.c.report),
    )
    .where(PLATFORMS.c.id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(PLATFORMS.c.id)
)


@dataclass(frozen=True, slots=True)
class PlatformProgress:
    """The times and the progress of a platform, without its texts."""

    id: int
    account: int | None
    submitted_s: float
    first_ran_s: float | None
    deadline_s: float | None
    report: Mapping[str, Any] | None


def living_ids(connection: sa.Connection) -> tuple[int, ...]:
    """Return the ids of the platforms that have not ended, oldest first."""
    return tuple(connection.scalars(_LIVING_IDS))


def templates(connection: sa.Connection, ids: Collection[int]) -> dict[int, str]:
    """Return the templates of these platforms, by id."""
    found: dict[int, str] = {}
    for some in chunks(sorted(ids)):
        found |= {row.id: row.template for row in connection.execute(_TEMPLATES, {"ids": some})}
    return found


def progress(connection: sa.Connection, ids: Collection[int]) -> tuple[PlatformProgress, ...]:
    """Return the progress of these platforms, oldest first."""
    return tuple(
        PlatformProgress(
            id=row.id,
            account=row.account,
            submitted_s=row.submitted_s,
            first_ran_s=row.first_ran_s,
            deadline_s=bounded_or_none(row.deadline_s),
            report=None if row.report is None else json.loads(row.report),
        )
        for some in chunks(sorted(ids))
        for row in connection.execute(_PROGRESS, {"ids": some})
    )
