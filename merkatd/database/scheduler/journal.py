"""The journal of steps: recorded before they are sent, ended by what the daemon observes.

# Note [The journal]
A step goes from planned to sent to confirmed, refused or expired, and never back. Functions that
change states return the steps that really changed. A step that was sent before is not among them,
so the daemon never sends a step twice, also after a crash.

Example: period 7 plans to migrate VM 1 from host 0 to host 1. `record` stores the step as planned.
While it is outstanding, `record` leaves out any other placement step of VM 1. `mark_sent` returns
it: the daemon sends it. If the daemon dies and calls `mark_sent` again later, it gets an empty set
and sends nothing. When VM 1 is seen on host 1, `confirm` ends the step, and VM 1 can be placed
again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from merkatd.cluster import Create, Step, Terminate
from merkatd.database.base.schema import InList, chunks
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
# Each period runs these statements many times: to build one takes longer than to run it.
_KNOWN = InList(lambda ids: sa.select(STEPS.c.id).where(STEPS.c.id.in_(ids)))
_PERIODS = InList(lambda numbers: sa.select(PERIODS.c.number).where(PERIODS.c.number.in_(numbers)))
_CREATIONS = InList(
    lambda ids: sa.select(STEPS.c.id, STEPS.c.detail).where(
        STEPS.c.id.in_(ids), STEPS.c.kind == Create.kind
    )
)
_IN_RECORDED_ORDER = sa.select(STEPS).order_by(STEPS.c.period, STEPS.c.position, STEPS.c.id)
_IS_OUTSTANDING = STEPS.c.state.in_(OUTSTANDING)
_OUTSTANDING_NOW = _IN_RECORDED_ORDER.where(_IS_OUTSTANDING)
_OUTSTANDING_OR_ENDED = _IN_RECORDED_ORDER.where(
    _IS_OUTSTANDING
    | STEPS.c.state.in_((StepState.CONFIRMED, StepState.EXPIRED))
    & STEPS.c.kind.in_(PLACEMENT)
    & (STEPS.c.ended_s == sa.bindparam("ended_s"))
)
_CLAIM_VMS = InList(
    lambda vms: sa.select(STEPS.c.outstanding_vm, STEPS.c.id).where(STEPS.c.outstanding_vm.in_(vms))
)
_CLAIM_KEYS = InList(
    lambda keys: sa.select(STEPS.c.live_key, STEPS.c.id).where(STEPS.c.live_key.in_(keys))
)
_INSERT = sa.insert(STEPS)
_ASKED = 3
"""Number of times that a guest is asked to shut down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFilter:
    """Conditions on steps; None is no condition."""

    vm: int | None = None
    host: int | None = None
    kind: str | None = None
    kinds: AbstractSet[str] | None = None
    """Steps of one of these kinds."""
    vms: AbstractSet[int] | None = None
    """Steps of one of these VMs; the caller must pass at most as many as fit into an IN list."""
    state: StepState | None = None
    first_period: int | None = None
    last_period: int | None = None
    since_s: float | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the SQL conditions of this filter."""
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
    """Return the steps that are planned or sent, in the order in which they were recorded.

    Include placement steps that were confirmed or expired at the time `ended_s`.
    """
    if ended_s is None:
        rows = connection.execute(_OUTSTANDING_NOW)
    else:
        rows = connection.execute(_OUTSTANDING_OR_ENDED, {"ended_s": ended_s})
    return tuple(from_row(row) for row in rows)


def of_plan(connection: sa.Connection, period: int) -> tuple[StoredStep, ...]:
    """Return the steps of a period, in the plan's order."""
    query = sa.select(STEPS).where(STEPS.c.period == period)
    rows = connection.execute(query.order_by(STEPS.c.position, STEPS.c.id))
    return tuple(from_row(row) for row in rows)


def recent(
    connection: sa.Connection, wanted: StepFilter, limit: int = 50
) -> tuple[StoredStep, ...]:
    """Return the newest steps that meet the filter, newest first."""
    query = sa.select(STEPS).where(*wanted.conditions()).order_by(*_NEWEST_FIRST).limit(limit)
    return tuple(from_row(row) for row in connection.execute(query))


def history(connection: sa.Connection, vm: int, limit: int = 50) -> tuple[StoredStep, ...]:
    """Return the newest steps of a VM, including its creation, newest first."""
    return recent(connection, StepFilter(vm=vm), limit)


def unresponsive_vms(connection: sa.Connection, vms: Iterable[int]) -> frozenset[int]:
    """Return the VMs among these whose guests ignored `_ASKED` requests to shut down.

    Steps that were never sent don't count: the guests do not know of them.
    """
    counts: Counter[int] = Counter()
    for some in chunks(sorted(set(vms))):
        wanted = StepFilter(kind=Terminate.kind, vms=frozenset(some), state=StepState.EXPIRED)
        conditions = (*wanted.conditions(), STEPS.c.sent_s.is_not(None))
        query = sa.select(STEPS.c.vm, sa.func.count()).where(*conditions)
        counts.update({row[0]: row[1] for row in connection.execute(query.group_by(STEPS.c.vm))})
    return frozenset(vm for vm, count in counts.items() if count >= _ASKED)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of recording a plan."""

    recorded: tuple[Step, ...]
    """Steps recorded now, or by an earlier attempt to record the same plan."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """The reasons for steps that were left out, by step id."""


def record(connection: sa.Connection, steps: Iterable[Step], at_s: float) -> Recorded:
    """Record the steps of a plan, in its order, as planned.

    A step is left out if another placement step of its VM is outstanding, if a creation with its
    key is outstanding or confirmed, or if a step that must come before it was left out. Recording
    the same steps again changes nothing.
    """
    wanted = list(steps)
    known = _known(connection, [step.id for step in wanted])
    vms = _claimed(connection, _CLAIM_VMS, [claimed_vm(step) for step in wanted])
    keys = _claimed(connection, _CLAIM_KEYS, [claimed_key(step) for step in wanted])
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
    """Move planned steps to sent; the caller may send only the returned steps.

    A retry of the same transaction returns the same steps; it is recognized by the same time.
    """
    wanted = frozenset(ids)
    moved = _in_state(connection, wanted, (StepState.PLANNED,))
    ours = _in_state(connection, wanted - moved, (StepState.SENT,), at_s)
    _update(
        connection,
        [{"which": step_id, "state": StepState.SENT, "sent_s": at_s} for step_id in moved],
    )
    return moved | ours


def confirm(
    connection: sa.Connection,
    ids: Iterable[str],
    at_s: float,
    created: Mapping[str, int] | None = None,
) -> frozenset[str]:
    """Move outstanding steps to confirmed; `created` has the new VMs of creations by step.

    A planned step can be confirmed too, if an administrator did the same before it was sent.
    """
    made = created or {}
    moved = _in_state(connection, {*ids, *made}, OUTSTANDING)
    ended = {"state": StepState.CONFIRMED, "ended_s": at_s, "outstanding_vm": None}
    _update(connection, [{"which": step_id, **ended} for step_id in moved if step_id not in made])
    _update(
        connection,
        [{"which": step_id, **ended, "vm": made[step_id]} for step_id in moved & made.keys()],
    )
    _drop_texts(connection, moved)
    return moved


def refuse(connection: sa.Connection, why: Mapping[str, str], at_s: float) -> frozenset[str]:
    """Move outstanding steps to refused, each with its answer."""
    return _give_up(connection, StepState.REFUSED, why, at_s)


def expire(connection: sa.Connection, why: Mapping[str, str], at_s: float) -> frozenset[str]:
    """Move outstanding steps to expired, each with the reason."""
    return _give_up(connection, StepState.EXPIRED, why, at_s)


def expire_unsent(connection: sa.Connection, why: Mapping[str, str], at_s: float) -> frozenset[str]:
    """Move steps to expired that were marked as sent, but certainly were not; drop that time."""
    return _give_up(connection, StepState.EXPIRED, why, at_s, {"sent_s": None})


def _give_up(
    connection: sa.Connection,
    state: StepState,
    why: Mapping[str, str],
    at_s: float,
    further: Mapping[str, None] = MappingProxyType({}),
) -> frozenset[str]:
    moved = _in_state(connection, why, OUTSTANDING)
    ended = {"state": state, "ended_s": at_s, "outstanding_vm": None, "live_key": None, **further}
    _update(connection, [{"which": step_id, **ended, "reply": why[step_id]} for step_id in moved])
    _drop_texts(connection, moved)
    return moved


def _drop_texts(connection: sa.Connection, ended: Iterable[str]) -> None:
    """Delete the templates of ended creations from the journal, to save space.

    A template has up to 32 KiB, steps are kept for a week, and a refused creation is repeated.
    """
    rows = _CREATIONS.rows(connection, sorted(ended))
    _update(connection, [{"which": row.id, "detail": without_text(row.detail)} for row in rows])


def _obstacle(
    step: Step,
    left_out: Mapping[str, str],
    vms: Mapping[int | None, str],
    keys: Mapping[str | None, str],
) -> str | None:
    blocked = next((first for first in step.after if first in left_out), None)
    if blocked is not None:
        return f"step {blocked}, which must be done first, was left out: {left_out[blocked]}"
    vm, key = claimed_vm(step), claimed_key(step)
    if vm is not None and vm in vms:
        return f"step {vms[vm]} of VM {vm} is outstanding"
    if key is not None and key in keys:
        return f"step {keys[key]} creates or created the VM with key {key}"
    return None


def _known(connection: sa.Connection, ids: list[str]) -> set[str]:
    return {row.id for row in _KNOWN.rows(connection, ids)}


def _claimed(connection: sa.Connection, claiming: InList, values: list[Any]) -> dict[Any, str]:
    """Return the steps that claim one of the values, by value; `claiming` selects them."""
    rows = claiming.rows(connection, [value for value in values if value is not None])
    return {value: step for value, step in rows}  # noqa: C416 - rows are no pairs to mypy


def _insert(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    missing = {row["period"] for row in rows} - _periods(connection, rows)
    if missing:
        raise LookupError(
            f"steps of period {min(missing)} can't be recorded: the period is not stored"
        )
    try:
        connection.execute(_INSERT, rows)
    except sa.exc.IntegrityError as error:
        # The claims were free a moment ago: a retry will see the other transaction's step.
        raise LostRaceError(f"another transaction recorded a step first: {error.orig}") from error


def _periods(connection: sa.Connection, rows: list[dict[str, Any]]) -> set[int]:
    numbers = {row["period"] for row in rows}
    return {row.number for row in _PERIODS.rows(connection, sorted(numbers))}


def _in_state(
    connection: sa.Connection,
    ids: Iterable[str],
    states: tuple[StepState, ...],
    sent_s: float | None = None,
) -> frozenset[str]:
    """Return which of the steps are in one of the states, and lock their rows.

    With `sent_s`, the steps must also have been sent at that time.
    """
    if sent_s is None:
        rows = _locking(states).rows(connection, sorted(ids))
    else:
        rows = _locking(states, sent=True).rows(connection, sorted(ids), its_sent_s=sent_s)
    return frozenset(row.id for row in rows)


@cache
def _locking(states: tuple[StepState, ...], *, sent: bool = False) -> InList:
    """Return the query that locks steps in these states; `sent`: sent at the time `its_sent_s`."""
    wanted: list[sa.ColumnElement[bool]] = [
        STEPS.c.state.in_([sa.literal(state) for state in states])
    ]
    if sent:
        wanted.append(STEPS.c.sent_s == sa.bindparam("its_sent_s"))
    return InList(
        lambda ids: sa.select(STEPS.c.id).where(STEPS.c.id.in_(ids), *wanted).with_for_update()
    )


def _update(connection: sa.Connection, changes: list[dict[str, Any]]) -> None:
    if changes:
        connection.execute(
            _update_of(tuple(name for name in changes[0] if name != "which")), changes
        )


@cache
def _update_of(names: tuple[str, ...]) -> sa.Update:
    """Return the statement that sets these columns of the step `which`."""
    values: dict[str, Any] = {name: sa.bindparam(name) for name in names}
    return sa.update(STEPS).where(STEPS.c.id == sa.bindparam("which")).values(values)
