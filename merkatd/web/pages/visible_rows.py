"""The hosts, VMs, prices and steps that a visitor may see."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.service.base.period_view import PeriodView
from merkatd.service.market.explanations import ExplainedVm
from merkatd.service.market.listings import host_state
from merkatd.service.market.prices import PastPriceRow
from merkatd.service.market.step_history import StepQuery, StepRow
from merkatd.service.market.visibility import own_vm_rows, visible_hosts, visible_vm_rows
from merkatd.web.base.routes import PageRequest


def host_bars(
    now: PeriodView, drained: AbstractSet[int], owner: int | None, most: int
) -> list[dict[str, Any]]:
    """Return up to `most` hosts with their VMs; with an owner, only its VMs and their hosts.

    A VM is [id, name, owner, part of the host's CPU, part of its memory]. On each host, VMs are
    sorted by owner.
    """
    table, vms = now.snapshot.hosts, now.snapshot.vms
    rows = np.flatnonzero(now.host != NO_HOST) if owner is None else own_vm_rows(now, owner)
    rows = rows[now.host[rows] != NO_HOST]
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
            "state": host_state(now, host, drained),
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


Row = dict[str, Any]
PRICED = 120
"""The number of periods whose prices are shown."""


def vms(here: PageRequest, which: Bools | None = None) -> list[int]:
    """Return the rows of the VMs in `which`, or of all VMs, that the visitor may see in lists."""
    return visible_vm_rows(here.caller, here.now, which)


async def prices(here: PageRequest) -> list[PastPriceRow]:
    """Return the prices of the newest periods, without a period that has not ended."""
    rows: list[PastPriceRow] = await here.read(
        ("prices", PRICED), lambda: here.house.prices.history(PRICED), []
    )
    return [row for row in rows if row.period <= here.period]


def host_ids(here: PageRequest) -> Mapping[str, int]:
    """Return the ids by name of the hosts whose page the visitor may see."""
    return visible_hosts(here.caller, here.now)


async def explained(here: PageRequest) -> ExplainedVm:
    """Return the explanation of the share of the VM in the address. Raise RequestError."""
    run = partial(here.read, ("explained", here.id))
    return await here.house.explanations.explain(here.caller, here.now, here.id, run)


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
) -> list[StepRow]:
    """Return the newest visible steps; with `host` or `period`, only those of it."""
    snapshot = here.now.snapshot
    back = min(max(_ROWS // max(len(snapshot.vms), 1), _LEAST_BACK), _MOST_BACK)
    wanted = StepQuery(
        kinds=kinds,
        host=host,
        first_period=max(here.period - back, 0) if period is None else period,
        last_period=here.period if period is None else period,
    )
    run = partial(here.read, ("steps", limit, kinds, host, period), default=[])
    return await here.house.steps.steps(here.caller, snapshot, wanted, limit, run)


async def steps_of_vm(here: PageRequest, limit: int) -> list[StepRow]:
    """Return the newest steps of the VM in the address. Raise RequestError if not visible."""
    last_owner = here.past.owner(here.id)
    run = partial(here.read, ("steps of", here.id, limit), default=[])
    return await here.house.steps.steps_of_vm(
        here.caller, here.now.snapshot, here.id, last_owner, limit, run
    )
