"""What of a snapshot takes part in one market: its hosts, its VMs, what they may claim.

Here it is settled who bids, who only holds a floor, and how much of each host the market
may give away. Rows keep the snapshot's order, so sums over them run by id.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, HostState, Ints, Snapshot, VmState
from merkatd.cluster.columns import NOWHERE
from merkatd.market.price import PriceRule
from merkatd.market.share import Share, share

_ON_HOST = (VmState.RUNNING, VmState.BUSY, VmState.SUSPENDED, VmState.POWERED_OFF)
_BIDDING = (VmState.PENDING, VmState.RUNNING, VmState.BUSY)


@dataclass(frozen=True, slots=True, eq=False)
class MarketView:
    """One market's hosts and VMs, numbered from 0 in the order of the snapshot's rows."""

    market: int
    hosts: Ints
    """Snapshot rows of the hosts that run VMs for this market."""
    vms: Ints
    """Snapshot rows of the VMs that hold or want a place in it."""
    open: Bools
    """[hosts]: takes new VMs, and counts in the market's capacity."""
    disabled: Bools
    """[hosts]: takes no new VMs; counts in the market's capacity as far as its VMs can use it."""
    capacity: Floats
    """[hosts, resources]: less the full size of the VMs there that belong to no market."""
    place: Ints
    """[vms]: the host a VM is on, NOWHERE while it is pending."""
    bid: Floats
    floor: Floats
    cap: Floats
    """[vms, resources]; a VM that is suspended or off bids nothing and keeps its floor. The cap of
    any other is at most what its bid pays for at the reserve price, and at least its floor."""
    size: Floats
    """[vms, resources]: the caps, whatever the bids pay for."""
    reserve: Floats
    """[resources]: the reserve prices that bound what a bid buys, 0 where none does."""
    movable: Bools
    """[vms]: runs, and nothing forbids to move it."""

    @property
    def total(self) -> Floats:
        """[resources]: the capacity of the market."""
        return total_of(self.capacity, self.open, self.disabled, self.usable)

    @property
    def usable(self) -> Floats:
        """[hosts, resources]: what the VMs on disabled hosts can use, 0 for other hosts."""
        there = np.flatnonzero(self.place != NOWHERE)
        found = np.zeros_like(self.capacity)
        np.add.at(found, self.place[there], self.cap[there])
        found[~self.disabled] = 0.0
        return found

    def first(self, taking_part: Bools) -> Share:
        """Eq. 1 with the whole market as one host, for the VMs that have or get a place."""
        return self._divided(np.where(taking_part, 0, NOWHERE), self.total[np.newaxis])

    def counted(self, rule: PriceRule, place: Ints) -> tuple[Floats, Floats, Floats]:
        """Return bids, floors and caps as the price counts them, each [vms, resources].

        A bid counts as far as its VM can use what it buys on the host where `place` puts it. Floors
        count under the clearing rule alone; there they are left out of what the bids divide.
        """
        here = self.capacity[np.maximum(place, 0)] if len(self.hosts) else 0.0
        cap = np.where((place != NOWHERE)[:, np.newaxis], np.minimum(self.cap, here), 0.0)
        clears = rule is PriceRule.CLEARING
        return self.bid, np.minimum(self.floor, cap) if clears else np.zeros_like(cap), cap

    def price_level(self, rule: PriceRule, place: Ints) -> Floats:
        """[resources]: what a credit buys in the market as one host, which makes the price."""
        there = np.flatnonzero(place != NOWHERE)
        bid, floor, cap = (of[there] for of in self.counted(rule, place))
        pool = np.zeros(len(there), dtype=np.int64)
        level: Floats = _divide(bid, floor, cap, pool, self.total[np.newaxis]).level[0]
        return level

    def host_levels(self, place: Ints) -> Floats:
        """[hosts, resources]: what a credit buys on each host if no VM there claims anything."""
        there = np.flatnonzero(place != NOWHERE)
        bid, none, cap = (of[there] for of in self.counted(PriceRule.PAPER, place))
        levels: Floats = _divide(bid, none, cap, place[there], self.capacity).level
        return levels

    def on_hosts(self, place: Ints) -> Share:
        """Eq. 1 on each host, with the VMs where `place` puts them."""
        return self._divided(place, self.capacity)

    def _divided(self, pool: Ints, capacity: Floats) -> Share:
        """Each resource of each pool divided among its VMs; nothing for those in none."""
        inside = pool != NOWHERE
        if not inside.all():
            rows = np.flatnonzero(inside)
            part = _divide(self.bid[rows], self.floor[rows], self.cap[rows], pool[rows], capacity)
            allocation = np.zeros_like(self.bid)
            allocation[rows] = part.allocation
            return Share(allocation, part.level)
        return _divide(self.bid, self.floor, self.cap, pool, capacity)


def total_of(capacity: Floats, open_: Bools, disabled: Bools, usable: Floats) -> Floats:
    """[resources]: all of the open hosts, and of the disabled ones as much as is usable.

    The amounts are [hosts, resources].
    """
    total: Floats = capacity[open_].sum(axis=0)
    if not disabled.any():
        return total
    used: Floats = np.minimum(usable, capacity)[disabled].sum(axis=0)
    return total + used


def _divide(bid: Floats, floor: Floats, cap: Floats, pool: Ints, capacity: Floats) -> Share:
    """All resources in one call: a pool a resource, side by side."""
    resources = bid.shape[1]
    pools = (pool[:, np.newaxis] * resources + np.arange(resources)).ravel()
    result = share(bid.ravel(), floor.ravel(), cap.ravel(), pools, capacity.ravel())
    return Share(result.allocation.reshape(bid.shape), result.level.reshape(capacity.shape))


def market_view(snapshot: Snapshot, market: int) -> MarketView:
    """The part of the snapshot that belongs to the market in this row."""
    table = snapshot.hosts
    works = (table.market == market) & (table.state != HostState.OFF)
    hosts = np.flatnonzero(works)
    local = np.full(len(works) + 1, NOWHERE)
    local[hosts] = np.arange(len(hosts))

    vms = snapshot.vms
    here = local[vms.host]
    member = vms.market != NOWHERE
    on_host = np.isin(vms.state, _ON_HOST) & (here != NOWHERE)
    pending = (vms.state == VmState.PENDING) & (vms.market == market)
    rows = np.flatnonzero(member & (on_host | pending))

    bids = np.isin(vms.state[rows], _BIDDING)[:, np.newaxis]
    size = vms.cap[rows]
    floor = np.minimum(vms.floor[rows], size)
    reserve = _reserve(snapshot, market)
    cap = affordable(size, floor, vms.bid[rows], reserve)
    return MarketView(
        market=market,
        hosts=hosts,
        vms=rows,
        open=table.state[hosts] == HostState.ON,
        disabled=table.state[hosts] == HostState.DISABLED,
        capacity=_left_for_market(snapshot, hosts, here, on_host & ~member),
        place=np.where(pending[rows], NOWHERE, here[rows]),
        bid=np.where(bids, vms.bid[rows], 0.0),
        floor=floor,
        cap=np.where(bids, cap, floor),
        size=np.where(bids, size, floor),
        reserve=reserve,
        movable=(vms.state[rows] == VmState.RUNNING) & vms.movable[rows],
    )


def _reserve(snapshot: Snapshot, market: int) -> Floats:
    if snapshot.markets.reserve.shape[1] == 0 or market == NOWHERE:
        return np.zeros(len(snapshot.resources))
    found: Floats = np.nan_to_num(snapshot.markets.reserve[market])
    return found


def affordable(size: Floats, floor: Floats, bid: Floats, reserve: Floats) -> Floats:
    """Return how much of each VM's size its bid pays for at the reserve prices, [vms, resources].

    Where VMs together can't use a host, a bid would otherwise buy all of a VM's size, however low
    it is, and a high bid no more. A floor stays: it costs the reserve price, whatever the bid.
    """
    if not reserve.any():
        return size
    bound = np.broadcast_to(reserve > 0, size.shape)
    with np.errstate(over="ignore"):
        paid = np.divide(bid, reserve, out=np.full_like(size, np.inf), where=bound)
    found: Floats = np.minimum(size, np.maximum(floor, paid))
    return found


def _left_for_market(snapshot: Snapshot, hosts: Ints, here: Ints, outside: Bools) -> Floats:
    """The hosts' capacity less the full size of the VMs there that belong to no market."""
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
