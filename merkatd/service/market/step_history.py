"""Steps of past periods: filters and rows for JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster import Migrate, Snapshot
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.step_store import StepState, StoredStep
from merkatd.protocol.control_messages import KINDS, STATES
from merkatd.service.base.arguments import Arguments, number, one_of, whole
from merkatd.service.base.errors import InvalidRequestError

Row = dict[str, Any]
Read = Callable[[sa.Connection], list[Row]]
MOST_STEPS = 100_000
LONGEST_S = 1e12
"""The largest accepted time since the epoch."""


def wanted_steps(
    arguments: Arguments, vm: int | None, host: int | None
) -> tuple[journal.StepFilter, int]:
    """Return the filter of the wanted steps and the most rows; `vm` and `host` are ids."""
    state = one_of(arguments, "state", STATES)
    limit = whole(arguments, "limit")
    if limit is not None and not 1 <= limit <= MOST_STEPS:
        raise InvalidRequestError(f"limit: must be from 1 to {MOST_STEPS} (got {limit})")
    wanted = journal.StepFilter(
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
    """Return the steps as rows, with the present names of hosts and VMs."""
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
