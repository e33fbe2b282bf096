"""The part of a snapshot that belongs to one market: hosts, VMs and their bids, floors and caps.

This module decides which VMs bid, which VMs only hold a floor, and how much of each host the
market may allocate. Rows keep the snapshot's order, so sums over them run by id.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import ON_HOST, Bools, Floats, HostState, Ints, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW, is_one_of
from merkatd.market.price import PriceRule
from merkatd.market.share import Share, share


@dataclass(frozen=True, slots=True, eq=False)
class MarketView:
    """One market's hosts and VMs, numbered from 0 in the order of the snapshot's rows."""

    market: int
    hosts: Ints
    """Snapshot rows of the hosts that run VMs for this market."""
    vms: Ints
    """Snapshot rows of the VMs that have or need a host of this market."""
    open: Bools
    """[hosts]: whether the host takes new VMs; then it counts in the market's capacity."""
    disabled: Bools
    """[hosts]: whether the host is disabled: it takes no new VMs, and only the part that its VMs
    can use counts in the market's capacity."""
    capacity: Floats
    """[hosts, resources]: the capacity less the full size of VMs that belong to no market."""
    place: Ints
    """[vms]: the VM's host; NO_HOST while it is pending."""
    bid: Floats
    floor: Floats
    cap: Floats
    """[vms, resources]: bid, floor and cap have this form. A VM that is suspended or off bids
    nothing and keeps its floor. The cap of other VMs is at most what the bid pays for at the
    reserve price, and at least the floor."""
    size: Floats
    """[vms, resources]: the caps, independent of bids."""
    reserve: Floats
    """[resources]: the reserve prices that limit what a bid buys; 0 for no limit."""
    movable: Bools
    """[vms]: whether the VM runs and may be moved."""

    @property
    def total(self) -> Floats:
        """Return [resources]: the capacity of the market."""
        return total_of(self.capacity, self.open, self.disabled, self.usable)

    @property
    def usable(self) -> Floats:
        """Return [hosts, resources]: what the VMs on disabled hosts can use; 0 for other hosts."""
        there = np.flatnonzero(self.place != NO_HOST)
        totals = np.zeros_like(self.capacity)
        if not self.disabled.any():
            return totals
        np.add.at(totals, self.place[there], self.cap[there])
        totals[~self.disabled] = 0.0
        return totals

    def first(self, taking_part: Bools) -> Share:
        """Return the shares (Eq. 1) with the whole market as one host, for VMs with a place."""
        return self._divided(np.where(taking_part, 0, NO_ROW), self.total[np.newaxis])

    def counted(self, rule: PriceRule, place: Ints) -> tuple[Floats, Floats, Floats]:
        """Return bids, floors and caps as the price counts them, each [vms, resources].

        A bid counts as far as its VM can use what it buys on its host in `place`. Floors count only
        under the clearing rule, where bids do not divide the capacity that floors take.
        """
        here = self.capacity[np.maximum(place, 0)] if len(self.hosts) else 0.0
        cap = np.where((place != NO_HOST)[:, np.newaxis], np.minimum(self.cap, here), 0.0)
        clears = rule is PriceRule.CLEARING
        return self.bid, np.minimum(self.floor, cap) if clears else np.zeros_like(cap), cap

    def price_level(self, rule: PriceRule, place: Ints) -> Floats:
        """Return [resources]: the units per credit in the market as one host (1 / price)."""
        there = np.flatnonzero(place != NO_HOST)
        bid, floor, cap = (of[there] for of in self.counted(rule, place))
        pool = np.zeros(len(there), dtype=np.int64)
        level: Floats = _divide(bid, floor, cap, pool, self.total[np.newaxis]).level[0]
        return level

    def host_levels(self, place: Ints) -> Floats:
        """Return [hosts, resources]: the units per credit on each host without claims."""
        there = np.flatnonzero(place != NO_HOST)
        bid, none, cap = (of[there] for of in self.counted(PriceRule.PAPER, place))
        levels: Floats = _divide(bid, none, cap, place[there], self.capacity).level
        return levels

    def on_hosts(self, place: Ints) -> Share:
        """Return the shares (Eq. 1) on each host, with the VMs placed as in `place`."""
        return self._divided(place, self.capacity)

    def _divided(self, pool: Ints, capacity: Floats) -> Share:
        """Return each pool's resources divided among its VMs; 0 for VMs in no pool."""
        inside = pool != NO_ROW
        if not inside.all():
            rows = np.flatnonzero(inside)
            bid, floor, cap = (of.take(rows, axis=0) for of in (self.bid, self.floor, self.cap))
            part = _divide(bid, floor, cap, pool[rows], capacity)
            allocation = np.zeros_like(self.bid)
            allocation[rows] = part.allocation
            return Share(allocation, part.level)
        return _divide(self.bid, self.floor, self.cap, pool, capacity)


def total_of(capacity: Floats, open_: Bools, disabled: Bools, usable: Floats) -> Floats:
    """Return [resources]: the capacity of open hosts plus the usable part of disabled hosts.

    `capacity` and `usable` are [hosts, resources].
    """
    total: Floats = capacity[open_].sum(axis=0)
    if not disabled.any():
        return total
    used: Floats = np.minimum(usable, capacity)[disabled].sum(axis=0)
    return total + used


def _divide(bid: Floats, floor: Floats, cap: Floats, pool: Ints, capacity: Floats) -> Share:
    """Return the shares of all resources in one call, with a pool per host and resource."""
    resources = bid.shape[1]
    pools = (pool[:, np.newaxis] * resources + np.arange(resources)).ravel()
    result = share(bid.ravel(), floor.ravel(), cap.ravel(), pools, capacity.ravel())
    return Share(result.allocation.reshape(bid.shape), result.level.reshape(capacity.shape))


def market_view(snapshot: Snapshot, market: int) -> MarketView:
    """Return the part of the snapshot that belongs to the market in this row."""
    table = snapshot.hosts
    works = (table.market == market) & (table.state != HostState.OFF)
    hosts = np.flatnonzero(works)
    local = np.full(len(works) + 1, NO_ROW)
    local[hosts] = np.arange(len(hosts))

    vms = snapshot.vms
    here = local[vms.host]
    member = vms.market != NO_MARKET
    on_host = is_one_of(vms.state, ON_HOST) & (here != NO_HOST)
    pending = vms.waiting & (vms.market == market)
    rows = np.flatnonzero(member & (on_host | pending))

    bids = vms.bidding[rows, np.newaxis]
    bid, floor, size = (of.take(rows, axis=0) for of in (vms.bid, vms.floor, vms.cap))
    floor = np.minimum(floor, size)
    reserve = _reserve(snapshot, market)
    cap = affordable(size, floor, bid, reserve)
    return MarketView(
        market=market,
        hosts=hosts,
        vms=rows,
        open=table.state[hosts] == HostState.ON,
        disabled=table.state[hosts] == HostState.DISABLED,
        capacity=_left_for_market(snapshot, hosts, here, on_host & ~member),
        place=np.where(pending[rows], NO_HOST, here[rows]),
        bid=np.where(bids, bid, 0.0),
        floor=floor,
        cap=np.where(bids, cap, floor),
        size=np.where(bids, size, floor),
        reserve=reserve,
        movable=(vms.state[rows] == VmState.RUNNING) & vms.movable[rows],
    )


def _reserve(snapshot: Snapshot, market: int) -> Floats:
    if snapshot.markets.reserve.shape[1] == 0 or market == NO_MARKET:
        return np.zeros(len(snapshot.resources))
    reserve: Floats = np.nan_to_num(snapshot.markets.reserve[market])
    return reserve


def affordable(size: Floats, floor: Floats, bid: Floats, reserve: Floats) -> Floats:
    """Return [vms, resources]: how much of a VM's size its bid pays for at the reserve prices.

    Without this limit, on a host with more than its VMs can use, even the lowest bid would buy all
    of a VM's size. A floor stays at any bid: it costs the reserve price.
    """
    if not reserve.any():
        return size
    bound = np.broadcast_to(reserve > 0, size.shape)
    with np.errstate(over="ignore"):
        paid = np.divide(bid, reserve, out=np.full_like(size, np.inf), where=bound)
    needed: Floats = np.minimum(size, np.maximum(floor, paid))
    return needed


def _left_for_market(snapshot: Snapshot, hosts: Ints, here: Ints, outside: Bools) -> Floats:
    """Return the hosts' capacity less the full size of VMs that belong to no market."""
    capacity = snapshot.hosts.capacity[hosts]
    rows = np.flatnonzero(outside)
    if len(rows) == 0:
        return capacity
    taken = np.stack(
        [
            np.bincount(here[rows], snapshot.vms.cap[rows, column], len(hosts))
            for column in range(capacity.shape[1])
        ],
        axis=1,
    )
    return np.maximum(capacity - taken, 0.0)
