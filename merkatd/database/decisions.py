"""Questions to the journal: what is outstanding, what was done, to whom and why."""

from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.cluster import Terminate
from merkatd.database.schema import chunks
from merkatd.database.steps import OUTSTANDING, PLACEMENT, STEPS, StepState, StoredStep, from_row

_NEWEST_FIRST = (STEPS.c.period.desc(), STEPS.c.position.desc(), STEPS.c.id)


_ASKED = 3
"""So often a guest is asked to end in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
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


def recent(connection: sa.Connection, wanted: Wanted, limit: int = 50) -> tuple[StoredStep, ...]:
    """The newest of the wanted steps, newest first."""
    query = sa.select(STEPS).where(*wanted.conditions()).order_by(*_NEWEST_FIRST).limit(limit)
    return tuple(from_row(row) for row in connection.execute(query))


def history(connection: sa.Connection, vm: int, limit: int = 50) -> tuple[StoredStep, ...]:
    """What was done to a VM, its creation included, newest first."""
    return recent(connection, Wanted(vm=vm), limit)


def deaf(connection: sa.Connection, vms: Iterable[int]) -> frozenset[int]:
    """Those of these VMs whose guests were asked to end several times, and ran on each time."""
    found: Counter[int] = Counter()
    for some in chunks(sorted(set(vms))):
        wanted = Wanted(kind=Terminate.kind, vms=frozenset(some), state=StepState.EXPIRED)
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
