"""Recent steps in the journal that failed, and switches of hosts that did not.

They are migrations and stops of VMs, and steps that switch hosts off and on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from merkatd.cluster import Migrate, Sleep, Stop, Wake
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


@dataclass(frozen=True, slots=True)
class FailingHost:
    """A host that could not be switched off, or on, since it was last switched."""

    attempts: int
    last_s: float
    """The end of the last attempt."""
    why: str


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
        STEPS.c.vm.in_(sa.bindparam("vms", expanding=True)),
    )
    .group_by(STEPS.c.vm)
)


_SWITCHES = (Sleep.kind, Wake.kind)
_FAILED_HOSTS = (
    sa.select(STEPS.c.host, STEPS.c.kind, STEPS.c.ended_s, STEPS.c.reply)
    .where(
        STEPS.c.kind.in_(_SWITCHES),
        STEPS.c.state.in_((StepState.REFUSED, StepState.EXPIRED)),
        STEPS.c.planned_s >= sa.bindparam("since_s"),
        STEPS.c.sent_s.is_not(None),
    )
    .order_by(STEPS.c.ended_s, STEPS.c.id)
)
_SWITCHED = (
    sa.select(STEPS.c.host, sa.func.max(STEPS.c.ended_s))
    .where(
        STEPS.c.kind.in_(sa.bindparam("kinds", expanding=True)),
        STEPS.c.state == StepState.CONFIRMED,
        STEPS.c.planned_s >= sa.bindparam("since_s"),
    )
    .group_by(STEPS.c.host)
)
_SWITCHED_OF = _SWITCHED.where(STEPS.c.host.in_(sa.bindparam("hosts", expanding=True)))
_GOES_OFF_S = 2 * 3600.0
"""The age up to which a step that switched a host off counts, with the time until it was seen."""


@dataclass(frozen=True, slots=True)
class RecentSwitches:
    """The results of recent steps that switch hosts, by host id."""

    off_at_s: Mapping[int, float] = field(default_factory=dict)
    """The time when each host was seen to sleep."""
    failing_sleeps: Mapping[int, FailingHost] = field(default_factory=dict)
    failing_wakes: Mapping[int, FailingHost] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecentMigrations:
    """The results of recent migrations, by VM id."""

    failing: Mapping[int, FailingVm] = field(default_factory=dict)
    failing_stops: Mapping[int, FailingVm] = field(default_factory=dict)
    """The VMs that fail to be stopped."""
    switches: RecentSwitches = field(default_factory=RecentSwitches)


def recent(connection: sa.Connection, at_s: float) -> RecentMigrations:
    """Return the VMs that fail to move or to stop, and the hosts that fail to be switched."""
    since_s = at_s - REMEMBERED_S
    return RecentMigrations(
        _failing(connection, Migrate.kind, since_s),
        _failing(connection, Stop.kind, since_s),
        _switches(connection, at_s),
    )


def _switches(connection: sa.Connection, at_s: float) -> RecentSwitches:
    """Return the hosts that were switched off, and those that could not be switched."""
    since_s = at_s - REMEMBERED_S
    slept = {"kinds": [Sleep.kind], "since_s": at_s - _GOES_OFF_S}
    rows = connection.execute(_FAILED_HOSTS, {"since_s": since_s}).all()
    failed = [row for row in rows if not (row.reply or "").startswith(NOT_SENT)]
    last: dict[int, float] = {}
    for some in chunks(sorted({row.host for row in failed})):
        of_these = {"kinds": list(_SWITCHES), "since_s": since_s, "hosts": some}
        last |= _times(connection, _SWITCHED_OF, of_these)
    failing: dict[str, dict[int, FailingHost]] = {kind: {} for kind in _SWITCHES}
    for row in failed:
        if row.ended_s > last.get(row.host, -1.0):
            known = failing[row.kind].get(row.host)
            attempts = 1 if known is None else known.attempts + 1
            why = row.reply or "no answer"
            failing[row.kind][row.host] = FailingHost(attempts, row.ended_s, why)
    off_at_s = _times(connection, _SWITCHED, slept)
    return RecentSwitches(off_at_s, failing[Sleep.kind], failing[Wake.kind])


def _times(
    connection: sa.Connection, query: sa.Executable, given: Mapping[str, Any]
) -> dict[int, float]:
    """Return the times in the second column by the host in the first."""
    return {row[0]: row[1] for row in connection.execute(query, given)}


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
    connection: sa.Connection, kind: str, since_s: float, vms: Iterable[int]
) -> Iterable[tuple[int, float]]:
    """Yield each of these VMs with the end of its last confirmed step, if it has one."""
    for some in chunks(sorted(vms)):
        rows = connection.execute(_CONFIRMED, {"kind": kind, "since_s": since_s, "vms": some})
        yield from map(tuple, rows)
