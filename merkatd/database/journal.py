"""The journal: steps are recorded before they are sent, and end only by what was seen.

A step goes from planned to sent to confirmed, refused or expired, and never back. Whoever
moves steps is told which of them really moved: a step that was sent already is not among
them, so that nobody sends it again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from merkatd.cluster import Create, Step
from merkatd.database.periods import PERIODS
from merkatd.database.retrying import LostRaceError
from merkatd.database.schema import chunks
from merkatd.database.steps import (
    OUTSTANDING,
    STEPS,
    StepState,
    claimed_key,
    claimed_vm,
    to_row,
    without_text,
)


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
