"""Explanation of a VM's share: terms that add up to its share on its host.

For each resource

    share = by_bid + others + floor + cap + rest

`by_bid` is the plain proportional share (Eq. 1): the VM's bid over all bids on its host, times the
capacity there. `others` is what neighbours at their caps leave over, or what neighbours take for
their floors. `floor` raises the VM to its floor, and `cap` limits it to its cap. `rest` is the
difference if floors don't fit, or if the strategy allocates something else than the market.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from merkatd.cluster import (
    Decision,
    Deploy,
    Ints,
    Migrate,
    Plan,
    Snapshot,
    Stop,
    Terminate,
)
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW
from merkatd.market.error import errors
from merkatd.market.market_view import MarketView, market_view
from merkatd.market.price import bid_that_buys
from merkatd.market.share import share

_CLOSE = 1e-9
"""Shares that differ by less than this part of the cap count as equal."""


class LimitedBy(StrEnum):
    """The reason why a share is not larger."""

    CAP = "cap"
    """The share is all that the VM can use."""
    BIDS = "bids"
    """Other VMs bid on the same host, and total demand exceeds the capacity."""
    FLOOR = "floor"
    """As `BIDS`, and the bid alone would get less than the floor."""
    RESERVE = "reserve price"
    """The bid pays for no more at the reserve price, the least price."""
    NO_BID = "no bid"
    OVERFULL = "overfull"
    """The floors of the host's VMs exceed its capacity: all are scaled down."""
    NO_HOST = "no host"
    STRATEGY = "strategy"
    """The strategy alone states the share; bids have no effect."""


@dataclass(frozen=True, slots=True)
class Part:
    """One resource of one VM: CPU in percent of a core, memory in MiB, bids in credits."""

    resource: str
    bid: float
    bids: float
    """Sum of all bids on the host."""
    bidders: int
    capacity: float
    """Capacity of the host that the market may allocate."""
    by_bid: float
    others: float
    floor: float
    cap: float
    rest: float
    share: float
    least: float
    """The VM's floor."""
    most: float
    """The VM's cap, whether or not its bid pays for it."""
    first: float
    """The VM's share if the whole market were one host."""
    error: float
    """The allocation error (Eq. 2)."""
    limited_by: LimitedBy
    bid_for_all: float | None
    """The least bid that gets the cap here while all other bids stay; None if no bid does, or if
    the VM does not bid."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one VM on the host that the decision gives it."""

    host: int
    """Row of the host, -1 for none."""
    parts: tuple[Part, ...]


_OF_BIDS = (LimitedBy.BIDS, LimitedBy.FLOOR, LimitedBy.RESERVE, LimitedBy.NO_BID)


def without_bids(explanation: Explanation) -> Explanation:
    """Return the explanation in a market whose strategy alone states what each VM gets."""

    def changed(part: Part) -> Part:
        if part.limited_by not in _OF_BIDS:
            return replace(part, bid_for_all=None)
        whole = part.share >= part.most - _CLOSE * max(part.most, 1.0)
        limit = LimitedBy.CAP if whole else LimitedBy.STRATEGY
        return replace(part, bid_for_all=None, limited_by=limit)

    return replace(explanation, parts=tuple(changed(part) for part in explanation.parts))


def hosts_after(snapshot: Snapshot, plan: Plan) -> Ints:
    """Return [vms]: the host row of each VM after the plan."""
    host = snapshot.vms.host.copy()
    for step in plan:
        if isinstance(step, Deploy | Migrate):
            host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
        elif isinstance(step, Stop | Terminate):
            host[snapshot.vm_row(step.vm)] = NO_HOST
    return host


def explain(snapshot: Snapshot, decision: Decision, row: int) -> Explanation | None:
    """Return the explanation of the VM in this row; None if it takes no part in a market now."""
    market = int(snapshot.vms.market[row])
    if market == NO_MARKET:
        return None
    at = int(snapshot.vms.host[row])
    if at != NO_HOST:  # a VM on a host takes part in that host's market
        market = int(snapshot.hosts.market[at])
    view = market_view(snapshot, market)
    rows = np.flatnonzero(view.vms == row)
    if market == NO_MARKET or len(rows) == 0:
        return None
    host = hosts_after(snapshot, decision.plan)
    local = np.full(len(snapshot.hosts) + 1, NO_ROW)
    local[view.hosts] = np.arange(len(view.hosts))
    place = local[host[view.vms]]
    first = view.first(place != NO_HOST).allocation
    on_host = view.on_hosts(place)
    vm = int(rows[0])
    asks = bool(snapshot.vms.bidding[row])
    parts = tuple(
        _part(
            view,
            vm,
            column,
            place,
            level=float(on_host.level[place[vm], column]) if place[vm] != NO_HOST else 0.0,
            given=float(decision.allocations[row, column]),
            first=float(first[vm, column]),
            resource=name,
            asks=asks and place[vm] != NO_HOST,
        )
        for column, name in enumerate(snapshot.resources)
    )
    return Explanation(int(host[row]) if place[vm] != NO_HOST else NO_HOST, parts)


def _part(
    view: MarketView,
    vm: int,
    column: int,
    place: Ints,
    *,
    level: float,
    given: float,
    first: float,
    resource: str,
    asks: bool,
) -> Part:
    """Return the terms for one resource of a VM, on its host or without a host."""
    bid, least, most = (float(of[vm, column]) for of in (view.bid, view.floor, view.cap))
    size = float(view.size[vm, column])
    nowhere = place[vm] == NO_HOST
    there = np.flatnonzero(place == place[vm]) if not nowhere else np.array([], dtype=np.int64)
    capacity = 0.0 if nowhere else float(view.capacity[place[vm], column])
    bids = float(view.bid[there, column].sum())
    by_bid = bid / bids * capacity if bids > 0 else 0.0
    if np.isinf(level):  # every VM has its cap: the surplus comes from other VMs
        others = max(most - by_bid, 0.0) if bid > 0 else 0.0
    else:
        others = bid * level - by_bid if not nowhere else 0.0
    raw = by_bid + others
    lift = max(least - raw, 0.0) if not nowhere else 0.0
    cut = min(most - (raw + lift), 0.0) if not nowhere else 0.0
    share_of_all = raw + lift + cut
    overfull = not nowhere and float(view.floor[there, column].sum()) > capacity
    return Part(
        resource=resource,
        bid=bid,
        bids=bids,
        bidders=int((view.bid[there, column] > 0).sum()),
        capacity=capacity,
        by_bid=by_bid,
        others=others,
        floor=lift,
        cap=cut,
        rest=given - share_of_all,
        share=given,
        least=least,
        most=size,
        first=first,
        error=float(errors(np.array([first]), np.array([given]))[0]),
        limited_by=_limited_by(bid, least, (most, size), given, nowhere=nowhere, overfull=overfull),
        bid_for_all=_bid_for_all(view, there, vm, column, capacity) if asks else None,
    )


def _limited_by(
    bid: float,
    least: float,
    at_most: tuple[float, float],
    given: float,
    *,
    nowhere: bool,
    overfull: bool,
) -> LimitedBy:
    """Return the first reason that applies; `at_most` is what the bid pays for, and the size."""
    paid, most = at_most
    close = _CLOSE * max(most, 1.0)
    cases = (
        (nowhere, LimitedBy.NO_HOST),
        (overfull, LimitedBy.OVERFULL),
        # A VM whose floor is its cap has all of it, also if the resource is not sold.
        (given >= most - close and (bid > 0 or least >= most), LimitedBy.CAP),
        (bid <= 0, LimitedBy.NO_BID),
        (given <= least + close, LimitedBy.FLOOR),
        (given >= paid - close, LimitedBy.RESERVE),
    )
    return next((reason for holds, reason in cases if holds), LimitedBy.BIDS)


def _bid_for_all(
    view: MarketView, there: Ints, vm: int, column: int, capacity: float
) -> float | None:
    """Return the other VMs' price of a unit after the VM's cap is reserved, times the cap."""
    most, reserve = float(view.size[vm, column]), float(view.reserve[column])
    if most <= 0:
        return 0.0
    if capacity < most:
        return None
    others = there[there != vm]
    if len(others) == 0:
        return bid_that_buys(most, reserve)
    level = float(
        share(
            view.bid[others, column],
            view.floor[others, column],
            view.cap[others, column],
            np.zeros(len(others), dtype=np.int64),
            np.array([capacity - most]),
        ).level[0]
    )
    return max(most / level, bid_that_buys(most, reserve)) if level > 0 else None
