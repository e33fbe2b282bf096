"""The hosts, VMs, prices and steps that a visitor may see."""

from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.cluster.columns import NO_HOST, is_one_of
from merkatd.service.base.period_view import PeriodView
from merkatd.service.base.visibility import own_vm_rows, visible_hosts, visible_vm_rows
from merkatd.service.market.explanations import ExplainedVm
from merkatd.service.market.listings import host_state
from merkatd.service.market.prices import PastPriceRow
from merkatd.service.market.step_history import StepQuery, StepRow
from merkatd.web.base.long_memory import RANGES
from merkatd.web.base.routes import PageRequest


def host_bars(
    view: PeriodView, drained: AbstractSet[int], owner: int | None, most: int
) -> list[dict[str, Any]]:
    """Return the first hosts with their VMs, together up to `most` hosts and VMs, at least a host.

    With an owner, return only its VMs and their hosts. A VM is [id, name, owner, part of the host's
    CPU, part of its memory]. On each host, VMs are sorted by owner.
    """
    table, vms = view.snapshot.hosts, view.snapshot.vms
    rows = np.flatnonzero(view.host != NO_HOST) if owner is None else own_vm_rows(view, owner)
    rows = rows[view.host[rows] != NO_HOST]
    hosts = np.arange(len(table)) if owner is None else np.unique(view.host[rows])
    there = np.bincount(view.host[rows], minlength=len(table))[hosts]
    hosts = hosts[: max(int(np.searchsorted(np.cumsum(there + 1), most, side="right")), 1)]
    rows = rows[is_one_of(view.host[rows], hosts)]
    rows = rows[np.lexsort((vms.id[rows], vms.owner[rows], view.host[rows]))]
    ends = np.searchsorted(view.host[rows], hosts, side="right").tolist()
    drawn = _drawn(view, rows)
    return [
        {
            "id": int(table.id[host]),
            "name": table.name[host],
            "state": host_state(view, host, drained),
            "vms": drawn[begin:end],
        }
        for host, begin, end in zip(hosts.tolist(), [0, *ends], ends, strict=False)
    ]


_LONGEST_NAME = 40
"""The longest part of a VM's name in the bars, in characters."""


def _drawn(view: PeriodView, rows: Ints) -> list[list[Any]]:
    """Return the VMs in these rows, for `host_bars`."""
    vms = view.snapshot.vms
    capacity = np.maximum(view.snapshot.hosts.capacity[view.host[rows]], 1e-9)
    parts = np.round(view.given()[rows] / capacity, 4)
    columns = (
        vms.id[rows].tolist(),
        [vms.name[row][:_LONGEST_NAME] for row in rows.tolist()],
        vms.owner[rows].tolist(),
        parts[:, view.snapshot.resources.index("cpu")].tolist(),
        parts[:, view.snapshot.resources.index("memory")].tolist(),
    )
    return [list(cells) for cells in zip(*columns, strict=True)]


Row = dict[str, Any]
PRICED = 120
"""The number of periods whose prices are shown."""


def vms(request: PageRequest, which: Bools | None = None) -> list[int]:
    """Return the rows of the VMs in `which`, or of all VMs, that the visitor may see in lists."""
    return visible_vm_rows(request.caller, request.now, which)


async def prices(request: PageRequest) -> list[PastPriceRow]:
    """Return the prices of the newest periods, or of the range that the visitor chose.

    A period that has not ended is left out.
    """
    there, range_ = request.house.prices, RANGES.get(request.range)
    if range_ is None:
        read = partial(there.history, PRICED)
    else:
        read = partial(there.spaced, request.period, range_.span_s, range_.slot_s)
    key = ("prices", "" if range_ is None else range_.name)
    rows: list[PastPriceRow] = await request.read(key, read, [])
    return [row for row in rows if row.period <= request.period]


def host_ids(request: PageRequest) -> Mapping[str, int]:
    """Return the ids by name of the hosts whose page the visitor may see."""
    return visible_hosts(request.caller, request.now)


async def explained(request: PageRequest) -> ExplainedVm:
    """Return the explanation of the share of the VM in the address. Raise RequestError."""
    run = partial(request.read, ("explained", request.id))
    return await request.house.explanations.explain(request.caller, request.now, request.id, run)


_ROWS = 300_000
"""The most steps to search: each VM can have a step in each period."""
_LEAST_BACK, _MOST_BACK = 3, 5_000


async def steps(
    request: PageRequest,
    limit: int,
    *,
    kinds: AbstractSet[str] | None = None,
    host: int | None = None,
    period: int | None = None,
) -> list[StepRow]:
    """Return the newest visible steps; with `host` or `period`, only those of it."""
    snapshot = request.now.snapshot
    back = min(max(_ROWS // max(len(snapshot.vms), 1), _LEAST_BACK), _MOST_BACK)
    wanted = StepQuery(
        kinds=kinds,
        host=host,
        first_period=max(request.period - back, 0) if period is None else period,
        last_period=request.period if period is None else period,
    )

    async def in_turn(read: Callable[[], Awaitable[Any]]) -> Any:
        # A tenant may have thousands of VMs, whose steps are then read and sorted.
        turn = partial(request.house.long_reads.run, request.uid, read)
        return await request.read(("steps", limit, kinds, host, period), turn, [])

    return await request.house.steps.steps(request.caller, snapshot, wanted, limit, in_turn)


async def steps_of_vm(request: PageRequest, limit: int) -> list[StepRow]:
    """Return the newest steps of the VM in the address. Raise RequestError if not visible."""
    last_owner = request.past.owner(request.id)
    run = partial(request.read, ("steps of", request.id, limit), default=[])
    return await request.house.steps.steps_of_vm(
        request.caller, request.now.snapshot, request.id, last_owner, limit, run
    )
