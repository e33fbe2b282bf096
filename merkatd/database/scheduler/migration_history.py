"""Recent migrations and stops in the journal: VMs that were moved, and VMs that fail to leave."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from merkatd.cluster import Migrate, Stop
from merkatd.database.base.schema import chunks
from merkatd.database.scheduler.step_store import STEPS, StepState

REMEMBERED_S = 86_400.0
"""Seconds for which a failed migration or stop counts."""

NOT_SENT = ("never sent", "not sent")
"""Prefixes of the reply of steps that were never sent to OpenNebula."""


@dataclass(frozen=True, slots=True)
class FailingVm:
    """A VM whose migrations have failed since it was last moved, or whose stops have failed."""

    attempts: int
    last_s: float
    """The end of the last attempt."""
    why: str
    """The reason of the last failure, from OpenNebula if it gave one."""


# Each period runs these statements: to build one takes longer than to run it.
_FAILED = (
    sa.select(STEPS.c.vm, STEPS.c.ended_s, STEPS.c.reply)
    .where(
        STEPS.c.kind == sa.bindparam("kind"),
        STEPS.c.state.in_((StepState.REFUSED, StepState.EXPIRED)),
        STEPS.c.planned_s >= sa.bindparam("since_s"),
        STEPS.c.sent_s.is_not(None),
    )
    .order_by(STEPS.c.ended_s, STEPS.c.id)
)
_CONFIRMED = (
    sa.select(STEPS.c.vm, sa.func.max(STEPS.c.ended_s))
    .where(
        STEPS.c.kind == sa.bindparam("kind"),
        STEPS.c.state == StepState.CONFIRMED,
        STEPS.c.planned_s >= sa.bindparam("since_s"),
    )
    .group_by(STEPS.c.vm)
)
_CONFIRMED_OF = _CONFIRMED.where(STEPS.c.vm.in_(sa.bindparam("vms", expanding=True)))


@dataclass(frozen=True, slots=True)
class RecentMigrations:
    """The results of recent migrations, by VM id."""

    moved_at_s: Mapping[int, float] = field(default_factory=dict)
    """The end of each VM's last confirmed migration."""
    failing: Mapping[int, FailingVm] = field(default_factory=dict)
    failing_stops: Mapping[int, FailingVm] = field(default_factory=dict)
    """The VMs that fail to be stopped."""


def recent(connection: sa.Connection, at_s: float, window_s: float) -> RecentMigrations:
    """Return the VMs whose migrations were confirmed, and the VMs that fail to move or to stop.

    Confirmed migrations count if they were planned in the last `window_s` seconds.
    """
    moved = dict(_confirmed(connection, Migrate.kind, at_s - window_s))
    since_s = at_s - REMEMBERED_S
    return RecentMigrations(
        moved, _failing(connection, Migrate.kind, since_s), _failing(connection, Stop.kind, since_s)
    )


def _failing(connection: sa.Connection, kind: str, since_s: float) -> Mapping[int, FailingVm]:
    """Return, by id, the VMs whose steps of this kind have failed since the last confirmed one."""
    rows = connection.execute(_FAILED, {"kind": kind, "since_s": since_s}).all()
    failed = [row for row in rows if not (row.reply or "").startswith(NOT_SENT)]
    last = dict(_confirmed(connection, kind, since_s, {row.vm for row in failed}))
    failing: dict[int, FailingVm] = {}
    for row in failed:
        if row.ended_s > last.get(row.vm, -1.0):
            attempts = failing[row.vm].attempts + 1 if row.vm in failing else 1
            failing[row.vm] = FailingVm(attempts, row.ended_s, row.reply or "no answer")
    return failing


def _confirmed(
    connection: sa.Connection, kind: str, since_s: float, vms: Iterable[int] | None = None
) -> Iterable[tuple[int, float]]:
    """Yield each VM, or each of these VMs, with the end of its last confirmed step."""
    if vms is None:
        yield from map(tuple, connection.execute(_CONFIRMED, {"kind": kind, "since_s": since_s}))
        return
    for some in chunks(sorted(vms)):
        rows = connection.execute(_CONFIRMED_OF, {"kind": kind, "since_s": since_s, "vms": some})
        yield from map(tuple, rows)
