"""Plans that wait for an administrator: what was proposed, what was said to it, what became of it.

At most one plan stands: it waits, or it was approved and is being carried out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.cluster import Step
from merkatd.database.base.schema import LONG_TEXT, SERIAL, table
from merkatd.database.scheduler.step_store import STEPS, StepState

Key = tuple[str, int, int | None]
"""Of a step: its kind, its VM and its host. It is the same in every period."""


class PlanState(StrEnum):
    """How far a plan came."""

    WAITING = "waiting"
    APPROVED = "approved"
    DONE = "done"
    """All was tried that was approved of."""
    REFUSED = "refused"
    REPLACED = "replaced"
    """Something else would be done by now, or nobody need be asked any more."""


STANDING = (PlanState.WAITING, PlanState.APPROVED)


class PlanColumns(TypedColumns):
    """The columns of `plans`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    period: Named[int] = Column(sa.Integer())
    made_s: Named[float] = Column(sa.Double())
    state: Named[str] = Column(sa.String(16))
    steps: Named[str] = Column(LONG_TEXT)
    who: Named[str | None] = Column(sa.String(64))
    approved_s: Named[float | None] = Column(sa.Double())
    ended_s: Named[float | None] = Column(sa.Double())


PLANS = table("plans", PlanColumns, sa.Index(None, "state"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """One step of a plan."""

    kind: str
    vm: int
    host: int | None = None
    source: int | None = None
    reason: str
    skipped: bool = False
    became: str | None = None
    """What became of it, in words."""

    @property
    def key(self) -> Key:
        """What makes it the same step in another period."""
        return (self.kind, self.vm, self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan and what became of it."""

    id: int
    period: int
    made_s: float
    state: PlanState
    steps: tuple[Proposed, ...]
    who: str | None
    """Who approved or refused."""
    approved_s: float | None
    ended_s: float | None

    @property
    def declined(self) -> frozenset[Key]:
        """The steps that are not wanted."""
        if self.state is PlanState.REFUSED:
            return frozenset(step.key for step in self.steps)
        return frozenset(step.key for step in self.steps if step.skipped)


def key_of(step: Step) -> Key:
    """What makes a step the same in another period."""
    return (step.kind, step.vm, getattr(step, "host", None))


def proposed(step: Step) -> Proposed:
    """A step as it is shown to whoever has to approve."""
    return Proposed(
        kind=step.kind,
        vm=step.vm,
        host=getattr(step, "host", None),
        source=getattr(step, "source", None),
        reason=step.reason,
    )


def newest(connection: sa.Connection) -> StoredPlan | None:
    """The plan that was made last."""
    rows = connection.execute(sa.select(PLANS).order_by(PLANS.c.id.desc()).limit(1))
    return next((_plan(row) for row in rows), None)


def get(connection: sa.Connection, plan: int) -> StoredPlan | None:
    """The plan of this number, locked until the transaction ends."""
    rows = connection.execute(sa.select(PLANS).where(PLANS.c.id == plan).with_for_update())
    return next((_plan(row) for row in rows), None)


def put(connection: sa.Connection, period: int, steps: Sequence[Proposed], at_s: float) -> None:
    """A new plan; the one that waited stands no more. Without steps there is none."""
    waiting = sa.update(PLANS).where(PLANS.c.state == PlanState.WAITING)
    connection.execute(waiting.values(state=PlanState.REPLACED, ended_s=at_s))
    if steps:
        row = {"period": period, "made_s": at_s, "state": PlanState.WAITING, "steps": _text(steps)}
        connection.execute(sa.insert(PLANS), row)


def withdraw(connection: sa.Connection, at_s: float) -> None:
    """No plan stands any more."""
    standing = sa.update(PLANS).where(PLANS.c.state.in_(STANDING))
    connection.execute(standing.values(state=PlanState.REPLACED, ended_s=at_s))


def approve(
    connection: sa.Connection, plan: StoredPlan, skipped: frozenset[int], who: str, at_s: float
) -> None:
    """Approve of it, but for the steps with these numbers, which begin at 1."""
    steps = [
        replace(step, skipped=number in skipped) for number, step in enumerate(plan.steps, start=1)
    ]
    _change(connection, plan, state=PlanState.APPROVED, steps=steps, who=who, approved_s=at_s)


def refuse(connection: sa.Connection, plan: StoredPlan, who: str, at_s: float) -> None:
    """Refuse all of it."""
    _change(connection, plan, state=PlanState.REFUSED, steps=plan.steps, who=who, ended_s=at_s)


def finish(
    connection: sa.Connection, plan: StoredPlan, became: Mapping[Key, str], at_s: float
) -> None:
    """Nothing more of it is tried."""
    steps = [replace(step, became=became.get(step.key)) for step in plan.steps]
    _change(connection, plan, state=PlanState.DONE, steps=steps, ended_s=at_s)


def followed(connection: sa.Connection, plan: StoredPlan) -> StoredPlan:
    """The plan, with what is known by now of the steps that were sent."""
    if plan.approved_s is None:
        return plan
    found = tried(connection, plan)
    steps = [replace(step, became=found.get(step.key, step.became)) for step in plan.steps]
    return replace(plan, steps=tuple(steps))


def tried(connection: sa.Connection, plan: StoredPlan) -> dict[Key, str]:
    """By step of an approved plan, of those that were sent since, how far they came."""
    query = sa.select(STEPS).where(STEPS.c.planned_s >= plan.approved_s)
    vms = {step.vm for step in plan.steps}
    found = {}
    for row in connection.execute(query.order_by(STEPS.c.period)):
        never_sent = row.state == StepState.EXPIRED and row.sent_s is None
        if row.vm in vms and not never_sent:
            said = f"{row.state}: {row.reply}" if row.reply else row.state
            found[(row.kind, row.vm, row.host)] = said
    return found


def _change(
    connection: sa.Connection, plan: StoredPlan, *, steps: Sequence[Proposed], **values: Any
) -> None:
    update = sa.update(PLANS).where(PLANS.c.id == plan.id)
    connection.execute(update.values(steps=_text(steps), **values))


def _text(steps: Sequence[Proposed]) -> str:
    return json.dumps([asdict(step) for step in steps])


def _plan(row: sa.Row[Any]) -> StoredPlan:
    values = {name: getattr(row, name) for name in StoredPlan.__dataclass_fields__}
    values["state"] = PlanState(row.state)
    values["steps"] = tuple(Proposed(**step) for step in json.loads(row.steps))
    return StoredPlan(**values)
