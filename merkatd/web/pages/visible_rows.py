"""The hosts, VMs, platforms, prices and steps that a visitor may see."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Bools, HostState, Ints
from merkatd.cluster.columns import NOWHERE
from merkatd.database.base.schema import chunks
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.journal import StepFilter
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.service.base.callers import USE, no_vm
from merkatd.service.base.errors import UnknownObjectError
from merkatd.service.base.period_view import PeriodView
from merkatd.service.market.explanations import explanation
from merkatd.service.market.listings import HOST_STATES
from merkatd.service.market.step_history import step_rows
from merkatd.web.base.routes import PageRequest


def host_bars(
    now: PeriodView, drained: AbstractSet[int], owner: int | None, most: int
) -> list[dict[str, Any]]:
    """Return up to `most` hosts with their VMs; with an owner, only its VMs and their hosts.

    A VM is [id, name, owner, part of the host's CPU, part of its memory]. On each host, VMs are
    sorted by owner.
    """
    table, vms = now.snapshot.hosts, now.snapshot.vms
    rows = np.flatnonzero(now.host != NOWHERE) if owner is None else own_rows(now, owner)
    rows = rows[now.host[rows] != NOWHERE]
    hosts = np.arange(len(table)) if owner is None else np.unique(now.host[rows])
    hosts = hosts[:most]
    rows = rows[np.isin(now.host[rows], hosts)]
    rows = rows[np.lexsort((vms.id[rows], vms.owner[rows], now.host[rows]))]
    ends = np.searchsorted(now.host[rows], hosts, side="right").tolist()
    drawn = _drawn(now, rows)
    return [
        {
            "id": int(table.id[host]),
            "name": table.name[host],
            "state": "drain"
            if int(table.id[host]) in drained
            else HOST_STATES[HostState(int(table.state[host]))],
            "vms": drawn[begin:end],
        }
        for host, begin, end in zip(hosts.tolist(), [0, *ends], ends, strict=False)
    ]


def _drawn(now: PeriodView, rows: Ints) -> list[list[Any]]:
    """Return the VMs in these rows, for `host_bars`."""
    vms = now.snapshot.vms
    whole = np.maximum(now.snapshot.hosts.capacity[now.host[rows]], 1e-9)
    parts = np.round(now.given()[rows] / whole, 4)
    columns = (
        vms.id[rows].tolist(),
        [vms.name[row] for row in rows.tolist()],
        vms.owner[rows].tolist(),
        parts[:, now.snapshot.resources.index("cpu")].tolist(),
        parts[:, now.snapshot.resources.index("memory")].tolist(),
    )
    return [list(one) for one in zip(*columns, strict=True)]


def own_rows(now: PeriodView, owner: int) -> Ints:
    """Return the rows of a tenant's VMs."""
    return np.flatnonzero(now.snapshot.vms.owner == owner)


Row = dict[str, Any]
PRICED = 120
"""The number of periods whose prices are shown."""


def vms(here: PageRequest, which: Bools | None = None) -> list[int]:
    """Return the rows of the VMs in `which`, or of all VMs, that the visitor may see in lists."""
    owner = here.now.snapshot.vms.owner
    wanted = np.ones(len(owner), bool) if which is None else which
    return _places(wanted if here.admin else wanted & (owner == here.uid))


def _places(which: Bools) -> list[int]:
    found: list[int] = np.flatnonzero(which).tolist()
    return found


async def prices(here: PageRequest) -> list[Row]:
    """Return the prices of the newest periods, without a period that has not ended."""
    rows: list[Row] = await here.call("merkat.price.history", PRICED, default=[])
    return [row for row in rows if row["period"] <= here.period]


def host_ids(here: PageRequest) -> Mapping[str, int]:
    """Return the ids by name of the hosts whose page the visitor may see."""
    table = here.now.snapshot.hosts
    ids = dict(zip(table.name, table.id.tolist(), strict=True))
    if here.admin:
        return ids
    allowed = {table.name[row] for row in own_hosts(here)}
    return {name: id_ for name, id_ in ids.items() if name in allowed}


def own_hosts(here: PageRequest) -> set[int]:
    """Return the rows of hosts with VMs of the visitor."""
    now = here.now
    found = np.unique(now.host[own_rows(now, here.uid)])
    return set(found[found != NOWHERE].tolist())


def host_row(here: PageRequest) -> tuple[PeriodView, int]:
    """Return the view and the row of the host in the address. Raise RequestError if not visible."""
    now = here.now
    row = next(iter(_places(now.snapshot.hosts.id == here.id)), NOWHERE)
    if row == NOWHERE or not (here.admin or row in own_hosts(here)):
        raise UnknownObjectError(f"Error getting host [{here.id}].", here.id)
    return now, row


async def explained(here: PageRequest) -> Row:
    """Return the explanation of the share of the VM in the address. Raise RequestError."""
    vms = here.now.snapshot.vms
    row = next(iter(_places(vms.id == here.id)), None)
    if row is None:
        raise no_vm(here.id)
    await here.house.callers.require_vm(here.caller, here.id, int(vms.owner[row]), USE)
    world, now = here.house.world, here.now
    found: Row = await here.read(("explained", here.id), lambda: explanation(world, now, row))
    return found


_ROWS = 300_000
"""The most steps to search: each VM can have a step in each period."""
_LEAST_BACK, _MOST_BACK = 3, 5_000


async def steps(
    here: PageRequest,
    limit: int,
    *,
    kinds: AbstractSet[str] | None = None,
    host: int | None = None,
    period: int | None = None,
) -> list[dict[str, Any]]:
    """Return the newest visible steps; with `host` or `period`, only those of it."""
    now = here.now
    back = min(max(_ROWS // max(len(now.snapshot.vms), 1), _LEAST_BACK), _MOST_BACK)
    wanted = StepFilter(
        kinds=kinds,
        host=host,
        first_period=max(here.period - back, 0) if period is None else period,
        last_period=here.period if period is None else period,
    )
    own = None if here.admin else now.snapshot.vms.id[own_rows(now, here.uid)].tolist()
    key = ("steps", limit, kinds, host, period)
    return await _read(here, now, key, partial(_found, wanted=wanted, vms=own, limit=limit))


async def steps_of_vm(here: PageRequest, vm: int, limit: int) -> list[dict[str, Any]]:
    """Return the newest steps of a VM that the visitor may see."""
    now = here.now
    wanted = StepFilter(vm=vm, last_period=here.period)
    key = ("steps of", vm, limit)
    return await _read(here, now, key, partial(_found, wanted=wanted, vms=None, limit=limit))


async def _read(
    here: PageRequest, now: PeriodView, key: tuple[Any, ...], found: Any
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = await here.stored(
        key, lambda connection: step_rows(found(connection), now.snapshot), []
    )
    return rows


def _found(
    connection: sa.Connection, wanted: StepFilter, vms: list[int] | None, limit: int
) -> list[StoredStep]:
    if vms is None:
        return list(journal.recent(connection, wanted, limit))
    return sorted(_of(connection, wanted, vms, limit), key=_age)[:limit]


def _of(
    connection: sa.Connection, wanted: StepFilter, vms: list[int], limit: int
) -> Iterator[StoredStep]:
    for some in chunks(vms):
        yield from journal.recent(connection, replace(wanted, vms=frozenset(some)), limit)


def _age(stored: StoredStep) -> tuple[int, float]:
    return -stored.step.period, -stored.planned_s
