"""The journal of steps: recorded before they are sent, ended by what was seen; and asked.

A step goes from planned to sent to confirmed, refused or expired, and never back. Whoever
moves steps is told which of them really moved: a step that was sent already is not among
them, so that nobody sends it again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from merkatd.cluster import Create, Step, Terminate
from merkatd.database.base.schema import chunks
from merkatd.database.base.transactions import LostRaceError
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.database.scheduler.step_store import (
    OUTSTANDING,
    PLACEMENT,
    STEPS,
    StepState,
    StoredStep,
    claimed_key,
    claimed_vm,
    from_row,
    to_row,
    without_text,
)

_NEWEST_FIRST = (STEPS.c.period.desc(), STEPS.c.position.desc(), STEPS.c.id)
_ASKED = 3
"""So often a guest is asked to end in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFilter:
    """Which steps somebody asks for; None asks for all."""

    vm: int | None = None
    host: int | None = None
    kind: str | None = None
    kinds: AbstractSet[str] | None = None
    """One of these,"""
    vms: AbstractSet[int] | None = None
    """and one of these: more at a time than an IN list holds are the caller's to divide."""
    state: StepState | None = None
    first_period: int | None = None
    last_period: int | None = None
    since_s: float | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """The conditions on rows that these wishes amount to."""
        given = (
            (self.vm, STEPS.c.vm == self.vm),
            (self.host, STEPS.c.host == self.host),
            (self.kind, STEPS.c.kind == self.kind),
            (self.kinds, STEPS.c.kind.in_(sorted(self.kinds or ()))),
            (self.vms, STEPS.c.vm.in_(sorted(self.vms or ()))),
            (self.state, STEPS.c.state == self.state),
            (self.first_period, STEPS.c.period >= (self.first_period or 0)),
            (self.last_period, STEPS.c.period <= (self.last_period or 0)),
            (self.since_s, STEPS.c.planned_s >= (self.since_s or 0.0)),
        )
        return [condition for value, condition in given if value is not None]


def outstanding(connection: sa.Connection, ended_s: float | None = None) -> tuple[StoredStep, ...]:
    """The steps that are planned or sent, in the order in which they were recorded.

    Those of placement that were seen to have ended at the time `ended_s` are among them.
    """
    which: sa.ColumnElement[bool] = STEPS.c.state.in_(OUTSTANDING)
    if ended_s is not None:
        seen = STEPS.c.state.in_((StepState.CONFIRMED, StepState.EXPIRED))
        which |= seen & STEPS.c.kind.in_(PLACEMENT) & (STEPS.c.ended_s == ended_s)
    query = sa.select(STEPS).where(which).order_by(STEPS.c.period, STEPS.c.position, STEPS.c.id)
    return tuple(from_row(row) for row in connection.execute(query))


def of_plan(connection: sa.Connection, period: int) -> tuple[StoredStep, ...]:
    """The steps of one period, in the plan's order."""
    query = sa.select(STEPS).where(STEPS.c.period == period)
    rows = connection.execute(query.order_by(STEPS.c.position, STEPS.c.id))
    return tuple(from_row(row) for row in rows)


def recent(
    connection: sa.Connection, wanted: StepFilter, limit: int = 50
) -> tuple[StoredStep, ...]:
    """The newest of the wanted steps, newest first."""
    query = sa.select(STEPS).where(*wanted.conditions()).order_by(*_NEWEST_FIRST).limit(limit)
    return tuple(from_row(row) for row in connection.execute(query))


def history(connection: sa.Connection, vm: int, limit: int = 50) -> tuple[StoredStep, ...]:
    """What was done to a VM, its creation included, newest first."""
    return recent(connection, StepFilter(vm=vm), limit)


def deaf(connection: sa.Connection, vms: Iterable[int]) -> frozenset[int]:
    """Those of these VMs whose guests were asked to end several times, and ran on each time."""
    found: Counter[int] = Counter()
    for some in chunks(sorted(set(vms))):
        wanted = StepFilter(kind=Terminate.kind, vms=frozenset(some), state=StepState.EXPIRED)
        query = sa.select(STEPS.c.vm, sa.func.count()).where(*wanted.conditions())
        found.update({row[0]: row[1] for row in connection.execute(query.group_by(STEPS.c.vm))})
    return frozenset(vm for vm, count in found.items() if count >= _ASKED)


def creations(connection: sa.Connection, keys: Iterable[str]) -> dict[str, StoredStep]:
    """The newest creation of each key."""
    found: dict[str, StoredStep] = {}
    for some in chunks(sorted(keys)):
        query = sa.select(STEPS).where(STEPS.c.create_key.in_(some)).order_by(STEPS.c.period)
        for row in connection.execute(query):
            found[row.create_key] = from_row(row)
    return found


@dataclass(frozen=True, slots=True)
class Recorded:
    """What recording a plan came to."""

    recorded: tuple[Step, ...]
    """Recorded now, or by an earlier attempt to record the same plan."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By step id: why a step can't be taken now."""


def record(connection: sa.Connection, steps: Iterable[Step], at_s: float) -> Recorded:
    """Record the steps of a plan, in its order, as planned.

    A step is left out where another placement step of its VM is outstanding, where a
    creation with its key is outstanding or was confirmed, and where a step that must come
    before it was left out. Recording the same steps again changes nothing.
    """
    wanted = list(steps)
    known = _known(connection, [step.id for step in wanted])
    vms = _claimed(connection, STEPS.c.outstanding_vm, [claimed_vm(step) for step in wanted])
    keys = _claimed(connection, STEPS.c.live_key, [claimed_key(step) for step in wanted])
    left_out: dict[str, str] = {}
    rows: dict[str, dict[str, Any]] = {}
    for position, step in enumerate(wanted):
        if step.id in known or step.id in rows:
            continue
        why = _obstacle(step, left_out, vms, keys)
        if why is not None:
            left_out[step.id] = why
            continue
        rows[step.id] = row = to_row(step, position, at_s)
        vms[row["outstanding_vm"]] = keys[row["live_key"]] = step.id
    if rows:
        _insert(connection, list(rows.values()))
    return Recorded(tuple(step for step in wanted if step.id not in left_out), left_out)


def mark_sent(connection: sa.Connection, ids: Iterable[str], at_s: float) -> frozenset[str]:
    """Move planned steps to sent; only those returned may be sent.

    They are the same where this is run again, of which the same time is the sign.
    """
    wanted = frozenset(ids)
    moved = _in_state(connection, wanted, (StepState.PLANNED,))
    ours = _in_state(connection, wanted - moved, (StepState.SENT,), STEPS.c.sent_s == at_s)
    _update(connection, [{"which": one, "state": StepState.SENT, "sent_s": at_s} for one in moved])
    return moved | ours


def confirm(
    connection: sa.Connection,
    ids: Iterable[str],
    at_s: float,
    created: Mapping[str, int] | None = None,
) -> frozenset[str]:
    """Move outstanding steps to confirmed; `created` gives the new VMs of creations by step.

    A planned step can be confirmed too: somebody else may have done what it was about to do.
    """
    made = created or {}
    moved = _in_state(connection, {*ids, *made}, OUTSTANDING)
    ended = {"state": StepState.CONFIRMED, "ended_s": at_s, "outstanding_vm": None}
    _update(connection, [{"which": one, **ended} for one in moved if one not in made])
    _update(connection, [{"which": one, **ended, "vm": made[one]} for one in moved & made.keys()])
    _drop_texts(connection, moved)
    return moved


def refuse(connection: sa.Connection, why: Mapping[str, str], at_s: float) -> frozenset[str]:
    """Move outstanding steps to refused, each with the answer it got."""
    return _give_up(connection, StepState.REFUSED, why, at_s)


def expire(connection: sa.Connection, why: Mapping[str, str], at_s: float) -> frozenset[str]:
    """Move outstanding steps to expired, each with the reason."""
    return _give_up(connection, StepState.EXPIRED, why, at_s)


def _give_up(
    connection: sa.Connection, state: StepState, why: Mapping[str, str], at_s: float
) -> frozenset[str]:
    moved = _in_state(connection, why, OUTSTANDING)
    ended = {"state": state, "ended_s": at_s, "outstanding_vm": None, "live_key": None}
    _update(connection, [{"which": one, **ended, "reply": why[one]} for one in moved])
    _drop_texts(connection, moved)
    return moved


def _drop_texts(connection: sa.Connection, ended: Iterable[str]) -> None:
    """Forget the templates of creations that have ended.

    A template has up to 32 KiB, steps are kept for a week, and a refused VM is tried again.
    """
    for some in chunks(sorted(ended)):
        query = sa.select(STEPS.c.id, STEPS.c.detail)
        query = query.where(STEPS.c.id.in_(some), STEPS.c.kind == Create.kind)
        rows = connection.execute(query).all()
        _update(connection, [{"which": row.id, "detail": without_text(row.detail)} for row in rows])


def _obstacle(
    step: Step,
    left_out: Mapping[str, str],
    vms: Mapping[int | None, str],
    keys: Mapping[str | None, str],
) -> str | None:
    blocked = next((one for one in step.after if one in left_out), None)
    if blocked is not None:
        return f"step {blocked}, which must come first, was left out: {left_out[blocked]}"
    vm, key = claimed_vm(step), claimed_key(step)
    if vm is not None and vm in vms:
        return f"step {vms[vm]} of VM {vm} is outstanding"
    if key is not None and key in keys:
        return f"step {keys[key]} creates or created the VM with key {key}"
    return None


def _known(connection: sa.Connection, ids: list[str]) -> set[str]:
    found: set[str] = set()
    for some in chunks(ids):
        found.update(connection.scalars(sa.select(STEPS.c.id).where(STEPS.c.id.in_(some))))
    return found


def _claimed(
    connection: sa.Connection, column: sa.Column[Any], values: list[Any]
) -> dict[Any, str]:
    """The steps that claim one of the values, by value."""
    found: dict[Any, str] = {}
    for some in chunks([value for value in values if value is not None]):
        query = sa.select(column, STEPS.c.id).where(column.in_(some))
        found.update((value, step) for value, step in connection.execute(query))
    return found


def _insert(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    missing = {row["period"] for row in rows} - _periods(connection, rows)
    if missing:
        raise LookupError(f"steps of period {min(missing)} can't be recorded: it was never begun")
    try:
        connection.execute(sa.insert(STEPS), rows)
    except sa.exc.IntegrityError as error:
        # All was free a moment ago; whoever took something since will be seen next time.
        raise LostRaceError(f"a step was recorded by somebody else: {error.orig}") from error


def _periods(connection: sa.Connection, rows: list[dict[str, Any]]) -> set[int]:
    numbers = {row["period"] for row in rows}
    return set(connection.scalars(sa.select(PERIODS.c.number).where(PERIODS.c.number.in_(numbers))))


def _in_state(
    connection: sa.Connection,
    ids: Iterable[str],
    states: tuple[StepState, ...],
    *further: sa.ColumnElement[bool],
) -> frozenset[str]:
    """Those of the steps that are in one of the states, locked until the transaction ends.

    All `further` conditions hold for them too.
    """
    found: set[str] = set()
    for some in chunks(sorted(ids)):
        query = sa.select(STEPS.c.id).where(STEPS.c.id.in_(some), STEPS.c.state.in_(states))
        query = query.where(*further)
        found.update(connection.scalars(query.with_for_update()))
    return frozenset(found)


def _update(connection: sa.Connection, changes: list[dict[str, Any]]) -> None:
    if changes:
        names: dict[str, Any] = {n: sa.bindparam(n) for n in changes[0] if n != "which"}
        query = sa.update(STEPS).where(STEPS.c.id == sa.bindparam("which"))
        connection.execute(query.values(names), changes)
