"""The table of plans that an administrator must approve: steps, answer and results.

At most one plan is standing: it waits, or it is approved and being carried out.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.cluster import Sleep, Step, Wake
from merkatd.database.base.schema import LONG_TEXT, SERIAL, table
from merkatd.database.scheduler.step_store import STEPS, StepState

Key = tuple[str, int, int | None]
"""The kind, VM and host of a step, which identify it across periods."""

Thing = tuple[str, int | None]
"""What a step acts on: `vm` or `host`, and its id."""

_OF_HOSTS = frozenset(kind.kind for kind in (Sleep, Wake))


class PlanState(StrEnum):
    """The state of a plan."""

    WAITING = "waiting"
    APPROVED = "approved"
    DONE = "done"
    """Every approved step was tried."""
    REFUSED = "refused"
    REPLACED = "replaced"
    """The daemon decides something else by now, or the mode needs no approval any more."""


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
    drawn: Named[int | None] = Column(sa.Integer())
    shortfalls: Named[str | None] = Column(LONG_TEXT)
    reverses: Named[int | None] = Column(sa.Integer())


PLANS = table("plans", PlanColumns, sa.Index(None, "state"))
_END_STANDING = sa.update(PLANS).where(PLANS.c.state.in_(STANDING))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedStep:
    """A step of a plan."""

    kind: str
    vm: int
    host: int | None = None
    source: int | None = None
    reason: str
    skipped: bool = False
    became: str | None = None
    """The step's result, as text."""
    gain: float | None = None
    """The gain of a migration, as the strategy that chose it has it."""
    cost: float | None = None
    """The cost of a period of a VM that starts; None if unknown."""

    @property
    def key(self) -> Key:
        """Return the key that identifies the step across periods."""
        return (self.kind, self.vm, self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan with its answer and its results."""

    id: int
    period: int
    made_s: float
    state: PlanState
    steps: tuple[ProposedStep, ...]
    who: str | None
    """The administrator that approved or refused the plan."""
    approved_s: float | None
    ended_s: float | None
    drawn: int | None = None
    """The period whose random numbers it was decided with; None for that of the plan."""
    shortfalls: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By market: the shortfall before and after the plan, if known."""
    reverses: int | None = None
    """The plan that it undoes; None for a plan of the strategies."""

    @property
    def declined(self) -> frozenset[Key]:
        """Return the keys of the refused or skipped steps."""
        if self.state is PlanState.REFUSED:
            return frozenset(step.key for step in self.steps)
        return frozenset(step.key for step in self.steps if step.skipped)


def thing_of(step: Step | ProposedStep) -> Thing:
    """Return what the step acts on: VMs that are created, and hosts, have no VM id."""
    if step.kind in _OF_HOSTS:
        return ("host", getattr(step, "host", None))
    return ("vm", step.vm)


def key_of(step: Step) -> Key:
    """Return the key that identifies the step across periods."""
    return (step.kind, step.vm, getattr(step, "host", None))


def proposed(step: Step) -> ProposedStep:
    """Return a step as it is shown to administrators."""
    return ProposedStep(
        kind=step.kind,
        vm=step.vm,
        host=getattr(step, "host", None),
        source=getattr(step, "source", None),
        reason=step.reason,
    )


def newest(connection: sa.Connection) -> StoredPlan | None:
    """Return the newest plan."""
    rows = connection.execute(sa.select(PLANS).order_by(PLANS.c.id.desc()).limit(1))
    return next((_plan(row) for row in rows), None)


def newest_locked(connection: sa.Connection) -> StoredPlan | None:
    """Return the newest plan, and let no other transaction change or add one until this one ends.

    It reads what is stored now, not what was when the transaction began.
    """
    query = sa.select(PLANS).order_by(PLANS.c.id.desc()).limit(1).with_for_update()
    return next((_plan(row) for row in connection.execute(query)), None)


def get(connection: sa.Connection, plan: int) -> StoredPlan | None:
    """Return the plan of this number, and lock its row until the transaction ends."""
    rows = connection.execute(sa.select(PLANS).where(PLANS.c.id == plan).with_for_update())
    return next((_plan(row) for row in rows), None)


def drawn_period(connection: sa.Connection) -> int | None:
    """Return the period whose random numbers the newest plan was decided with.

    None unless that plan waits, is approved, or was refused.
    """
    plan = newest(connection)
    if plan is None or plan.state not in {*STANDING, PlanState.REFUSED}:
        return None
    return plan.period if plan.drawn is None else plan.drawn


def put(
    connection: sa.Connection,
    period: int,
    steps: Sequence[ProposedStep],
    at_s: float,
    drawn: int | None = None,
    shortfalls: Mapping[str, Sequence[float]] | None = None,
    reverses: int | None = None,
) -> None:
    """Store a new plan in place of the waiting one; without steps, only remove that one."""
    waiting = sa.update(PLANS).where(PLANS.c.state == PlanState.WAITING)
    connection.execute(waiting.values(state=PlanState.REPLACED, ended_s=at_s))
    if steps:
        row = {"period": period, "made_s": at_s, "state": PlanState.WAITING, "steps": _text(steps)}
        known = None if shortfalls is None else json.dumps(shortfalls)
        more = {"drawn": drawn, "shortfalls": known, "reverses": reverses}
        connection.execute(sa.insert(PLANS), {**row, **more})


def withdraw(connection: sa.Connection, at_s: float) -> None:
    """End the standing plan, if any."""
    connection.execute(_END_STANDING, {"state": PlanState.REPLACED, "ended_s": at_s})


def newest_done(connection: sa.Connection) -> StoredPlan | None:
    """Return the newest plan whose steps were all tried."""
    query = sa.select(PLANS).where(PLANS.c.state == PlanState.DONE)
    rows = connection.execute(query.order_by(PLANS.c.id.desc()).limit(1))
    return next((_plan(row) for row in rows), None)


def approve(
    connection: sa.Connection, plan: StoredPlan, skipped: frozenset[int], who: str, at_s: float
) -> None:
    """Approve a plan, except for the steps with these numbers, which begin at 1."""
    steps = [
        replace(step, skipped=number in skipped) for number, step in enumerate(plan.steps, start=1)
    ]
    _change(connection, plan, state=PlanState.APPROVED, steps=steps, who=who, approved_s=at_s)


def refuse(connection: sa.Connection, plan: StoredPlan, who: str, at_s: float) -> None:
    """Refuse a plan."""
    _change(connection, plan, state=PlanState.REFUSED, steps=plan.steps, who=who, ended_s=at_s)


def finish(
    connection: sa.Connection, plan: StoredPlan, became: Mapping[Key, str], at_s: float
) -> None:
    """End an approved plan, with the results of its steps."""
    steps = [replace(step, became=became.get(step.key)) for step in plan.steps]
    _change(connection, plan, state=PlanState.DONE, steps=steps, ended_s=at_s)


def with_results(connection: sa.Connection, plan: StoredPlan) -> StoredPlan:
    """Return the plan with the present results of its steps."""
    if plan.approved_s is None:
        return plan
    results = results_by_step(connection, plan)
    steps = [replace(step, became=results.get(step.key, step.became)) for step in plan.steps]
    return replace(plan, steps=tuple(steps))


def results_by_step(connection: sa.Connection, plan: StoredPlan) -> dict[Key, str]:
    """Return the results of an approved plan's steps that were sent, by step.

    Periods after the plan's own carry it out. Times are no help: the clock may be set back after
    the approval.
    """
    kinds = sorted({step.kind for step in plan.steps})
    query = sa.select(
        STEPS.c.kind, STEPS.c.vm, STEPS.c.host, STEPS.c.state, STEPS.c.reply, STEPS.c.sent_s
    ).where(STEPS.c.period > plan.period, STEPS.c.kind.in_(kinds))
    vms = {step.vm for step in plan.steps}
    results = {}
    for row in connection.execute(query.order_by(STEPS.c.period)):
        never_sent = row.state == StepState.EXPIRED and row.sent_s is None
        if row.vm in vms and not never_sent:
            result = f"{row.state}: {row.reply}" if row.reply else row.state
            results[(row.kind, row.vm, row.host)] = result
    return results


def _change(
    connection: sa.Connection, plan: StoredPlan, *, steps: Sequence[ProposedStep], **values: Any
) -> None:
    update = sa.update(PLANS).where(PLANS.c.id == plan.id)
    connection.execute(update.values(steps=_text(steps), **values))


def _text(steps: Sequence[ProposedStep]) -> str:
    return json.dumps([asdict(step) for step in steps])


def _plan(row: sa.Row[Any]) -> StoredPlan:
    values = {name: getattr(row, name) for name in StoredPlan.__dataclass_fields__}
    values["state"] = PlanState(row.state)
    values["shortfalls"] = json.loads(row.shortfalls or "{}")
    values["steps"] = tuple(ProposedStep(**step) for step in json.loads(row.steps))
    return StoredPlan(**values)
