"""The table of steps: its columns, and the conversion between steps and rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.cluster import (
    Balloon,
    Create,
    Deploy,
    Limit,
    Migrate,
    Pin,
    Resume,
    Sleep,
    Step,
    Stop,
    Suspend,
    Terminate,
    Throttle,
    Wake,
)
from merkatd.database.base.schema import LONG_TEXT, table


class StepState(StrEnum):
    """The state of a step. The first two are outstanding, the others final."""

    PLANNED = "planned"
    """Recorded, and certainly not sent."""
    SENT = "sent"
    """Sent; it may have taken effect."""
    CONFIRMED = "confirmed"
    """Its effect was observed."""
    REFUSED = "refused"
    """Answered with an error."""
    EXPIRED = "expired"
    """Ended without an observed effect."""


OUTSTANDING: Final = (StepState.PLANNED, StepState.SENT)

PLACEMENT: Final = frozenset(
    kind.kind for kind in (Create, Deploy, Migrate, Suspend, Resume, Stop, Terminate)
)
"""Kinds of steps that change where or whether a VM runs; one per VM can be outstanding."""

_KINDS: Final[Mapping[str, type[Step]]] = {
    kind.kind: kind
    for kind in (
        Create,
        Deploy,
        Migrate,
        Suspend,
        Resume,
        Stop,
        Terminate,
        Limit,
        Pin,
        Balloon,
        Throttle,
        Sleep,
        Wake,
    )
}


class StepColumns(TypedColumns):
    """The columns of `steps`."""

    id: Named[str] = Column(sa.String(32), primary_key=True)
    period: Named[int] = Column(sa.Integer(), sa.ForeignKey("periods.number"))
    position: Named[int] = Column(sa.Integer())
    kind: Named[str] = Column(sa.String(16))
    vm: Named[int] = Column(sa.Integer())
    host: Named[int | None] = Column(sa.Integer())
    create_key: Named[str | None] = Column(sa.String(64))
    reason: Named[str] = Column(LONG_TEXT)
    after_steps: Named[str] = Column(LONG_TEXT)
    detail: Named[str] = Column(LONG_TEXT)
    state: Named[str] = Column(sa.String(16))
    planned_s: Named[float] = Column(sa.Double())
    sent_s: Named[float | None] = Column(sa.Double())
    ended_s: Named[float | None] = Column(sa.Double())
    reply: Named[str | None] = Column(LONG_TEXT)
    # The two claims below are NULL if nothing is claimed: the unique keys ignore NULLs.
    outstanding_vm: Named[int | None] = Column(sa.Integer(), unique=True)
    live_key: Named[str | None] = Column(sa.String(64), unique=True)


STEPS = table(
    "steps",
    StepColumns,
    sa.Index(None, "period", "position"),
    sa.Index(None, "vm", "period"),
    sa.Index(None, "state"),
    sa.Index(None, "create_key"),
    sa.Index(None, "planned_s"),
    sa.Index(None, "kind", "planned_s"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStep:
    """A step with its state and its result."""

    step: Step
    state: StepState
    planned_s: float
    sent_s: float | None
    ended_s: float | None
    reply: str | None
    """The answer to the step, or the reason why it expired."""
    created: int | None = None
    """The VM that a confirmed creation created."""

    @property
    def id(self) -> str:
        """Return the step's id."""
        return self.step.id


def to_row(step: Step, position: int, at_s: float) -> dict[str, Any]:
    """Return the row of a new step."""
    rest = {
        entry.name: getattr(step, entry.name)
        for entry in fields(step)
        if entry.name not in {"period", "vm", "reason", "after", "host", "key"}
    }
    return {
        "id": step.id,
        "period": step.period,
        "position": position,
        "kind": step.kind,
        "vm": step.vm,
        "host": getattr(step, "host", None),
        "create_key": getattr(step, "key", None),
        "reason": step.reason,
        "after_steps": json.dumps(step.after),
        "detail": json.dumps(rest, allow_nan=False),
        "state": StepState.PLANNED,
        "planned_s": at_s,
        "outstanding_vm": claimed_vm(step),
        "live_key": claimed_key(step),
    }


def without_text(detail: str) -> str:
    """Return the detail of a creation without the VM's template, which only sending needs."""
    return json.dumps(json.loads(detail) | {"template": ""}, allow_nan=False)


def claimed_vm(step: Step) -> int | None:
    """Return the VM for which no other placement step can be outstanding, if any."""
    return step.vm if step.kind in PLACEMENT and not isinstance(step, Create) else None


def claimed_key(step: Step) -> str | None:
    """Return the key that no other creation can use unless this one is refused or expires."""
    return step.key if isinstance(step, Create) else None


def from_row(row: sa.Row[Any]) -> StoredStep:
    """Return the stored step of a row that has all columns."""
    step, created = _step(row)
    return StoredStep(
        step=step,
        state=StepState(row.state),
        planned_s=row.planned_s,
        sent_s=row.sent_s,
        ended_s=row.ended_s,
        reply=row.reply,
        created=created,
    )


def _step(row: sa.Row[Any]) -> tuple[Step, int | None]:
    kind = _KINDS[row.kind]
    values = {name: _tuples(value) for name, value in json.loads(row.detail).items()}
    values |= {"period": row.period, "vm": row.vm, "reason": row.reason}
    values["after"] = tuple(json.loads(row.after_steps))
    names = {entry.name for entry in fields(kind)}
    if "host" in names:
        values["host"] = row.host
    if "key" not in names:
        return kind(**values), None
    values["key"] = row.create_key
    made = values["vm"] if values["vm"] >= 0 else None
    return kind(**values | {"vm": -1}), made


def _tuples(value: Any) -> Any:
    """Return a JSON value with tuples for lists: steps have no lists."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
