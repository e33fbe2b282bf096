"""The newest decisions as far as the visitor may know of them: of all VMs, or of one's own."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from merkatd.api.questions.history import step_rows
from merkatd.api.questions.present import Present
from merkatd.database.base.schema import chunks
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.journal import Wanted
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.web.drawing import own_rows
from merkatd.web.routes import Here

_ROWS = 300_000
"""Of steps that are looked through at most: each VM can have one in each period."""
_LEAST_BACK, _MOST_BACK = 3, 5_000


async def steps(
    here: Here,
    limit: int,
    *,
    kinds: AbstractSet[str] | None = None,
    host: int | None = None,
    period: int | None = None,
) -> list[dict[str, Any]]:
    """The newest, of the visitor's own VMs unless it sees all; of one host or period if said."""
    now = here.now
    back = min(max(_ROWS // max(len(now.snapshot.vms), 1), _LEAST_BACK), _MOST_BACK)
    wanted = Wanted(
        kinds=kinds,
        host=host,
        first_period=max(here.period - back, 0) if period is None else period,
        last_period=here.period if period is None else period,
    )
    own = None if here.admin else now.snapshot.vms.id[own_rows(now, here.uid)].tolist()
    key = ("steps", limit, kinds, host, period)
    return await _read(here, now, key, partial(_found, wanted=wanted, vms=own, limit=limit))


async def steps_of_vm(here: Here, vm: int, limit: int) -> list[dict[str, Any]]:
    """What was done with a VM that the visitor may see."""
    now = here.now
    wanted = Wanted(vm=vm, last_period=here.period)
    key = ("steps of", vm, limit)
    return await _read(here, now, key, partial(_found, wanted=wanted, vms=None, limit=limit))


async def _read(here: Here, now: Present, key: tuple[Any, ...], found: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = await here.stored(
        key, lambda connection: step_rows(found(connection), now.snapshot), []
    )
    return rows


def _found(
    connection: sa.Connection, wanted: Wanted, vms: list[int] | None, limit: int
) -> list[StoredStep]:
    if vms is None:
        return list(journal.recent(connection, wanted, limit))
    return sorted(_of(connection, wanted, vms, limit), key=_age)[:limit]


def _of(
    connection: sa.Connection, wanted: Wanted, vms: list[int], limit: int
) -> Iterator[StoredStep]:
    for some in chunks(vms):
        yield from journal.recent(connection, replace(wanted, vms=frozenset(some)), limit)


def _age(stored: StoredStep) -> tuple[int, float]:
    return -stored.step.period, -stored.planned_s
