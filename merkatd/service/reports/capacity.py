"""Free capacity: how many VMs of a size each host can take now, and what one of them would cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import Floats
from merkatd.cluster.columns import NO_HOST
from merkatd.service.base.arguments import one_of
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import QuotedView
from merkatd.service.market.quotes import (
    Amounts,
    BidderPlace,
    PlannedVm,
    planned_place,
    quoted_vm,
    require_sold,
)

DEFAULT_SIZE: Amounts = {"cpu": 100.0, "memory": 1024.0}
"""A core and a GiB: the size in a question without a size."""
_ROUNDING = 1e-9
"""A VM fits even if rounding makes the room so much smaller than its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVacancy:
    """The VMs of a size that a host can take."""

    host: str
    market: str
    unused: int
    """How many fit into what no VM gets now."""
    fits: int
    """How many fit beside the floors of all VMs there."""
    free: Mapping[str, float]
    """The amounts that no VM gets now, by resource."""
    bid: Mapping[str, float | None]
    """The least bid that gets a VM its size there, by resource; None if no bid does."""
    cost: float | None
    """The credits that this VM costs a period; None if no bid gets it its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketVacancy:
    """The VMs of a size that a market can take."""

    market: str
    period: int
    unused: int
    fits: int
    closed: int
    """The number of its hosts that take no new VMs."""
    hosts: Sequence[HostVacancy]
    """The hosts that take new VMs, the cheapest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReport:
    """The VMs of a size that the cloud can take."""

    size: Amounts
    markets: Sequence[MarketVacancy]


def free_capacity(
    caller: Caller, view: QuotedView, size: Amounts, market: str | None = None
) -> CapacityReport:
    """Return the room for VMs of this size in a market or in all. Raise RequestError."""
    require_admin(caller, "ADMIN HOSTS")
    names = [rules.name for rules in view.markets]
    chosen = one_of({"market": market}, "market", names)
    wanted = {**size} if size else dict(DEFAULT_SIZE)
    require_sold(view.now.snapshot.resources, {"": wanted})
    if not any(amount > 0 for amount in wanted.values()):
        raise InvalidRequestError("cpu, memory: at least one amount must be above 0")
    given = _given_by_host(view)
    return CapacityReport(
        size=wanted,
        markets=[
            _market(view, row, wanted, given)
            for row, name in enumerate(names)
            if chosen in {None, name}
        ],
    )


def _given_by_host(view: QuotedView) -> Floats:
    """Return [hosts, resources]: what the VMs on each host get together."""
    given = np.zeros_like(view.now.snapshot.hosts.capacity)
    placed = view.now.host != NO_HOST
    np.add.at(given, view.now.host[placed], view.now.given()[placed])
    return given


def _market(view: QuotedView, row: int, size: Amounts, given: Floats) -> MarketVacancy:
    quotes, name = view.quotes[row], view.markets[row].name
    planned = planned_place(view, PlannedVm(market=name, cap=size))
    room = dict(zip(quotes.by_load.tolist(), quotes.room, strict=True))
    hosts = [_host(view, planned, name, local, room[local], size, given) for local in room]
    hosts.sort(key=lambda host: (math.inf if host.cost is None else host.cost, host.host))
    return MarketVacancy(
        market=name,
        period=view.latest.period,
        unused=sum(host.unused for host in hosts),
        fits=sum(host.fits for host in hosts),
        closed=len(quotes.host_rows) - len(hosts),
        hosts=hosts,
    )


def _host(
    view: QuotedView,
    planned: BidderPlace,
    market: str,
    local: int,
    room: Floats,
    size: Amounts,
    given: Floats,
) -> HostVacancy:
    """Return the room on the host in the row `local` of the market."""
    snapshot, host = view.now.snapshot, int(planned.quotes.host_rows[local])
    free = np.maximum(planned.quotes.capacity[local] - given[host], 0.0)
    place = planned.place
    claim = None if place.claim is None else replace(place.claim, pool=local)
    bidder = replace(planned, place=replace(place, host=host, pool=local, claim=claim))
    names = snapshot.resources
    quoted = quoted_vm(bidder, {}, {name: size[name] for name in names if size.get(name)})
    least = dict(zip(names, place.floor, strict=True))
    needed = {name: max(size.get(name, 0.0), least[name]) for name in names}
    return HostVacancy(
        host=snapshot.hosts.name[host] if host != NO_HOST else "",
        market=market,
        unused=_count(names, needed, free),
        fits=_count(names, needed, room),
        free={name: float(amount) for name, amount in zip(names, free, strict=True)},
        bid={part.resource: part.bid for part in quoted.resources},
        cost=quoted.cost,
    )


def _count(names: Sequence[str], needed: Mapping[str, float], room: Floats) -> int:
    """Return how many VMs with these needs fit into the room."""
    counts = [
        float(amount) / needed[name]
        for name, amount in zip(names, room, strict=True)
        if needed[name] > 0
    ]
    return max(math.floor(min(counts) + _ROUNDING), 0)
