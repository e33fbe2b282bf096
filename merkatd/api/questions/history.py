"""What was: the prices and the decisions that the database keeps, a row each, as JSON has it."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from merkatd.api.questions.words import Arguments, QuestionError, finite, number, one_of, whole
from merkatd.api.recorded import KINDS, STATES
from merkatd.cluster import Migrate, Snapshot
from merkatd.database.ledger import note_store
from merkatd.database.scheduler import journal, price_store
from merkatd.database.scheduler.step_store import StepState, StoredStep

Row = dict[str, Any]
Read = Callable[[sa.Connection], list[Row]]

MOST_PERIODS = 10_000
MOST_STEPS = 100_000
LONGEST_S = 1e12
"""No time since the epoch that anybody asks for is later."""


def price_history(arguments: Arguments, markets: Sequence[str], resources: Sequence[str]) -> Read:
    """The newest `periods` of one market or of all, oldest first: a row a period and market."""
    chosen = one_of(arguments, "market", markets)
    wanted = whole(arguments, "periods")
    periods = 60 if wanted is None else wanted
    if not 1 <= periods <= MOST_PERIODS:
        raise QuestionError(f"periods: {periods}: 1 to {MOST_PERIODS} are right")

    def read(connection: sa.Connection) -> list[Row]:
        rows: dict[tuple[int, str], Row] = {}
        for market in [chosen] if chosen else markets:
            points = price_store.history(connection, market, 0.0, periods * len(resources))
            for point in points:
                row = rows.setdefault(
                    (point.period, market),
                    {"period": point.period, "at_s": point.started_s, "market": market},
                )
                row[point.resource] = finite(point.price)
        found = [rows[key] for key in sorted(rows)]
        _announce(connection, found)
        return found

    return read


def _announce(connection: sa.Connection, rows: Sequence[Row]) -> None:
    """Say in the rows of the periods in which the supply was changed how, and why."""
    if not rows:
        return
    began = sorted({row["at_s"] for row in rows})
    changes = note_store.recent(
        connection, MOST_PERIODS, kind=note_store.NoteKind.SUPPLY, since_s=began[0]
    )
    said = {began[bisect_right(began, change.at_s) - 1]: change.text for change in changes}
    for row in rows:
        if row["at_s"] in said:
            row["supply"] = said[row["at_s"]]


def wanted_steps(
    arguments: Arguments, vm: int | None, host: int | None
) -> tuple[journal.Wanted, int]:
    """Which steps are asked for, and how many at most; VM and host were looked up before."""
    state = one_of(arguments, "state", STATES)
    limit = whole(arguments, "limit")
    if limit is not None and not 1 <= limit <= MOST_STEPS:
        raise QuestionError(f"limit: {limit}: 1 to {MOST_STEPS} is right")
    wanted = journal.Wanted(
        vm=vm,
        host=host,
        kind=one_of(arguments, "kind", KINDS),
        state=None if state is None else StepState(state),
        first_period=whole(arguments, "first_period"),
        last_period=whole(arguments, "last_period"),
        since_s=number(arguments, "since_s", LONGEST_S),
    )
    return wanted, limit or 50


def step_rows(steps: Sequence[StoredStep], snapshot: Snapshot | None) -> list[Row]:
    """The steps as they are told, with the names that hosts and VMs have now."""
    vms = _names(snapshot.vms.id.tolist(), snapshot.vms.name) if snapshot else {}
    hosts = _names(snapshot.hosts.id.tolist(), snapshot.hosts.name) if snapshot else {}
    return [_step_row(stored, vms, hosts) for stored in steps]


def _names(ids: Sequence[int], names: Sequence[str]) -> dict[int, str]:
    return dict(zip(ids, names, strict=True))


def _step_row(stored: StoredStep, vms: Mapping[int, str], hosts: Mapping[int, str]) -> Row:
    step = stored.step
    host, source = getattr(step, "host", None), getattr(step, "source", None)
    vm = stored.created if stored.created is not None else step.vm
    return {
        "id": stored.id,
        "period": step.period,
        "at_s": stored.planned_s,
        "sent_s": stored.sent_s,
        "ended_s": stored.ended_s,
        "kind": step.kind,
        "vm": vm if vm >= 0 else None,
        "name": vms.get(vm),
        "source": None if source is None else hosts.get(source, str(source)),
        "host": None if host is None else hosts.get(host, str(host)),
        "state": str(stored.state),
        "gain": finite(step.gain) if isinstance(step, Migrate) else None,
        "after": list(step.after),
        "reason": step.reason,
        "reply": stored.reply,
    }
