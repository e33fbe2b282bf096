"""What a bid would get and cost now, and which bid it would take.

A market is prepared once a period. After that a quote costs a few searches by halving, however
many VMs there are: nothing is summed up again. It says what `share.py` would divide and
`price.py` would ask if the bid were really changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.market.claim_prices import ClaimPrices, Claims, PricedClaim
from merkatd.market.demand import Bidder, Demand
from merkatd.market.explanation import BIDDING
from merkatd.market.market_view import market_view, total_of
from merkatd.market.price import PriceRule, bid_that_buys, charges, price
from merkatd.market.quoted_place import Quote

LEAST_BID = 1e-6
"""A micro-credit: what is to be had for any bid above nothing is had for this."""
_FIRST_LOOK = 16
"""So many of the least loaded hosts are looked at first, twice as many next, and so on."""


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """A VM, or one that there could be, where it would contend."""

    host: int
    """The snapshot's row of its host, -1 where it fits on none: then the market as one host
    stands for it."""
    pool: int
    """The host among those of the market, -1 for none."""
    now: tuple[Bidder, ...] | None
    """By resource, how it counts at present; None where it doesn't,"""
    priced: tuple[Bidder, ...] | None
    """and how it counts in the price."""
    floor: tuple[float, ...]
    cap: tuple[float, ...]
    """The VM's size, whatever its bid pays for."""
    bids: bool = True
    """False while it is suspended or off: then it keeps its floor, whatever its bid is."""
    holds: tuple[float, ...] | None = None
    """What it holds, whatever its share is."""
    claim: PricedClaim | None = None
    """Of what its floor is the part that its present bid pays for; None where nobody pays."""


@dataclass(frozen=True, slots=True, eq=False)
class Quotes:
    """One market, prepared."""

    resources: tuple[str, ...]
    rule: PriceRule
    reserve: Floats
    total: Floats
    """[resources]: the market's capacity."""
    hosts: Demand
    """A pool a host and resource,"""
    market: Demand
    """a pool a resource, as if the market were one host,"""
    priced: Demand
    """and the same as the price counts it: with no more than VMs can use on their hosts, and with
    floors where they count."""
    capacity: Floats
    """[hosts, resources]"""
    open: Bools
    """[hosts]: takes new VMs, and counts in the market's capacity."""
    disabled: Bools
    """[hosts]: counts in the market's capacity as far as its VMs can use it:"""
    usable: Floats
    """[hosts, resources]: so much, where that is no more than there is."""
    host_rows: Ints
    """[hosts]: their rows in the snapshot."""
    by_load: Ints
    """[open hosts]: the one with the least load first; of equals the first."""
    room: Floats
    """[open hosts, resources], in that order: what floors leave."""
    local: Ints
    """[vms of the snapshot]: the row below, -1 for those with no part in the market."""
    at: Ints
    """[vms]: the host among those of the market, -1 for none."""
    rows: Floats
    """[vms, resources, 3]: bid, floor and cap,"""
    priced_rows: Floats
    """and the same as the price counts them."""
    sizes: Floats
    """[vms, resources]: the caps, whatever the bids pay for."""
    bound: Floats
    """[resources]: the reserve prices that bound what a bid buys, 0 where none does."""
    bidding: Sequence[bool]
    """[vms]: runs or wants to."""
    holds: Floats
    """[vms, resources]: what each holds, whatever its share is."""
    claims: ClaimPrices | None = None
    """What claims hold with other bids; None where bids pay for no claims."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        market: int,
        host: Ints,
        rule: PriceRule,
        reserve: Floats,
        holds: Floats | None = None,
        claims: Claims | None = None,
    ) -> Self:
        """Prepare the market in this row, with each VM on the host in the row given for it.

        `holds` is [vms, resources], of the snapshot: what each holds at least. `claims` are what
        VMs claim, of which the snapshot's floors are what their present bids pay for.
        """
        view = market_view(snapshot, market)
        among = np.full(len(snapshot.hosts) + 1, NOWHERE)
        among[view.hosts] = np.arange(len(view.hosts))
        at = among[host[view.vms]]
        there = np.flatnonzero(at != NOWHERE)
        kinds = len(snapshot.resources)
        columns = np.arange(kinds)

        def demand(rows: tuple[Floats, ...], pool: Ints, capacity: Floats) -> Demand:
            pools = (pool[:, np.newaxis] * kinds + columns).ravel()
            bid, floor, cap = (of[there].ravel() for of in rows)
            return Demand.of(bid, floor, cap, pools, capacity.ravel())

        whole = (view.bid, view.floor, view.cap)
        counted = view.counted(rule, at)
        together = np.zeros(len(there), dtype=np.int64)

        local = np.full(len(snapshot.vms), NOWHERE)
        local[view.vms] = np.arange(len(view.vms))
        order, room = _by_load(
            _sums(view.bid[there], at[there], len(view.hosts)),
            view.capacity,
            view.capacity - _sums(view.floor[there], at[there], len(view.hosts)),
            np.flatnonzero(view.open),
        )
        return cls(
            resources=snapshot.resources,
            rule=rule,
            reserve=reserve,
            total=view.total,
            hosts=demand(whole, at[there], view.capacity),
            market=demand(whole, together, view.total),
            priced=demand(counted, together, view.total),
            capacity=view.capacity,
            open=view.open,
            disabled=view.disabled,
            usable=view.usable,
            host_rows=view.hosts,
            by_load=order,
            room=room,
            local=local,
            at=at,
            rows=np.stack(whole, axis=2),
            priced_rows=np.stack(counted, axis=2),
            sizes=view.size,
            bound=view.reserve,
            bidding=np.isin(snapshot.vms.state[view.vms], BIDDING).tolist(),
            holds=np.zeros_like(view.floor) if holds is None else holds[view.vms],
            claims=None if claims is None else ClaimPrices.of(view, at, claims),
        )

    def place_of(self, row: int) -> QuotedPlace | None:
        """The VM in this row of the snapshot: on its host, or on the one it would be tried on.

        None for one that has no part in the market.
        """
        vm = int(self.local[row])
        if vm == NOWHERE:
            return None
        now = tuple(Bidder(*row) for row in self.rows[vm].tolist())
        floor, cap = tuple(row.floor for row in now), tuple(self.sizes[vm].tolist())
        pool, bids = int(self.at[vm]), self.bidding[vm]
        claim = self.claims.of_vm(vm, pool) if self.claims is not None and bids else None
        if pool == NOWHERE:
            found = self.place_for(floor, cap)
            return replace(found, claim=claim and replace(claim, pool=found.pool))
        priced = tuple(Bidder(*row) for row in self.priced_rows[vm].tolist())
        holds = tuple(self.holds[vm].tolist())
        host = int(self.host_rows[pool])
        return QuotedPlace(host, pool, now, priced, floor, cap, bids, holds, claim)

    def place_for(self, floor: Sequence[float], cap: Sequence[float]) -> QuotedPlace:
        """Return where a new VM would be: on the host with the least load on which its floor fits.

        Its bid has to pay for the floor, where bids pay for claims.
        """
        pool, asked = self._roomy(np.array(floor)), tuple(floor)
        host = NOWHERE if pool == NOWHERE else int(self.host_rows[pool])
        claim = None if self.claims is None else PricedClaim(asked, (0.0,) * len(asked), pool, None)
        return QuotedPlace(host, pool, None, None, asked, tuple(cap), claim=claim)

    def quote(self, place: QuotedPlace, bid: Sequence[float]) -> tuple[Quote, ...]:
        """By resource, what these bids would get and cost there."""
        rows = [self._row(place, column, one) for column, one in enumerate(bid)]
        if not place.bids:
            rows = [row._replace(bid=0.0, cap=row.floor) for row in rows]
        shares = [self._share(place, column, row) for column, row in enumerate(rows)]
        prices = self._prices(place, rows)
        holds = np.zeros(len(rows)) if place.holds is None else np.array(place.holds)
        owed = charges(
            np.array([[row.bid for row in rows]]),
            np.maximum(shares, holds)[np.newaxis],
            prices[np.newaxis],
            1.0,
            floors=np.maximum([row.floor for row in rows], holds)[np.newaxis],
            reserve=self.reserve,
        )
        outcome = zip(self.resources, bid, shares, prices.tolist(), owed[0].tolist(), strict=True)
        return tuple(Quote(*one) for one in outcome)

    def bid_for(
        self, place: QuotedPlace, wanted: Sequence[float | None]
    ) -> tuple[float | None, ...]:
        """By resource, the least bid that gets so much there; None where no bid does.

        Of a resource of which nothing is wanted it is None too.
        """
        return tuple(
            None if amount is None else self._bid_for(place, column, amount)
            for column, amount in enumerate(wanted)
        )

    def _row(self, place: QuotedPlace, column: int, bid: float) -> Bidder:
        """How it would count with this bid: with what that pays for at the reserve price."""
        cap, least = place.cap[column], float(self.bound[column])
        floor = self._floor(place, column, bid)
        return Bidder(bid, floor, min(cap, max(floor, bid / least)) if least else cap)

    def _floor(self, place: QuotedPlace, column: int, bid: float) -> float:
        """What of its claim this bid pays for."""
        floor, least = place.floor[column], float(self.bound[column])
        if self.claims is None or place.claim is None:
            return floor
        if place.now is not None and place.now[column].bid == bid:
            return floor
        usable = min(place.cap[column], bid / least) if least else place.cap[column]
        return min(self.claims.floor(place.claim, column, bid, usable), place.cap[column])

    def _share(self, place: QuotedPlace, column: int, row: Bidder) -> float:
        """Of one resource, what this row would get."""
        demand, pool, old = self._pool(place, column)
        capacity = float(demand.capacity[pool])
        floors = demand.floors(pool) - (old.floor if old is not None else 0.0) + row.floor
        if floors > capacity:
            return row.floor * (capacity / floors)
        if row.top == row.floor:
            return row.floor
        return row.gets(demand.level(pool, capacity, old, row))

    def _bid_for(self, place: QuotedPlace, column: int, amount: float) -> float | None:
        """What a unit costs the others once the amount is set aside, times the amount."""
        demand, pool, old = self._pool(place, column)
        floor = self._floor(place, column, 0.0)
        if amount <= self._share(place, column, Bidder(0.0, floor, 0.0)):
            return 0.0
        capacity = float(demand.capacity[pool])
        if not place.bids or amount > min(place.cap[column], capacity):
            return None
        level = demand.level(pool, capacity - amount, old)
        claimed = None
        if self.claims is not None and place.claim is not None:
            claimed = self.claims.bid_for(place.claim, column, amount)
        if level == 0:
            return claimed
        bid = max(amount / level, bid_that_buys(amount, float(self.bound[column])), LEAST_BID)
        return bid if claimed is None else min(bid, max(claimed, LEAST_BID))

    def _prices(self, place: QuotedPlace, rows: Sequence[Bidder]) -> Floats:
        """Of a unit of each resource, with these rows in the place of the VM's own."""
        level = np.array(
            [
                self.priced.level(
                    column,
                    self._total(place, column, row),
                    None if place.priced is None else place.priced[column],
                    self._counted(place, column, row),
                )
                for column, row in enumerate(rows)
            ]
        )
        return price(level, self.reserve)

    def _total(self, place: QuotedPlace, column: int, row: Bidder) -> float:
        """The market's capacity: a bid can change how much of a disabled host its VM can use.

        Summed as the market sums it: where all caps come to just the capacity, the last digit of
        it decides what the price is.
        """
        if place.pool == NOWHERE or place.now is None or not self.disabled[place.pool]:
            return float(self.total[column])
        caps = self.rows[self.at == place.pool, column, 2]
        own = int(np.flatnonzero(caps == place.now[column].cap)[0])
        caps[own] = row.cap
        usable = self.usable.copy()
        usable[place.pool, column] = sum(caps.tolist())
        return float(total_of(self.capacity, self.open, self.disabled, usable)[column])

    def _counted(self, place: QuotedPlace, column: int, row: Bidder) -> Bidder:
        """How a row counts in the price: as `MarketView.counted` has it."""
        if place.pool == NOWHERE:
            most = float(self.hosts.capacity[column :: len(self.resources)].max(initial=0.0))
        else:
            most = float(self.hosts.capacity[place.pool * len(self.resources) + column])
        cap = min(row.cap, most)
        floor = min(row.floor, cap) if self.rule is PriceRule.CLEARING else 0.0
        return Bidder(row.bid, floor, cap)

    def _pool(self, place: QuotedPlace, column: int) -> tuple[Demand, int, Bidder | None]:
        """Where it contends for a resource, and how it counts there at present."""
        old = None if place.now is None else place.now[column]
        if place.pool == NOWHERE:
            return self.market, column, old
        return self.hosts, place.pool * len(self.resources) + column, old

    def _roomy(self, floor: Floats) -> int:
        """The first host by load on which a floor fits, -1 for none."""
        begin, size = 0, _FIRST_LOOK
        while begin < len(self.by_load):
            fits = np.flatnonzero((self.room[begin : begin + size] >= floor).all(axis=1))
            if len(fits):
                return int(self.by_load[begin + fits[0]])
            begin, size = begin + size, size * 2
        return NOWHERE


def _by_load(bids: Floats, capacity: Floats, room: Floats, open_: Ints) -> tuple[Ints, Floats]:
    """Hosts that take VMs by rising load (the largest over the resources), and their room."""
    there = capacity[open_]
    none = np.full_like(there, np.inf)
    load = np.divide(bids[open_], there, out=none, where=there > 0).max(axis=1, initial=0.0)
    order = open_[np.argsort(load, kind="stable")]
    return order, room[order]


def _sums(values: Floats, at: Ints, hosts: int) -> Floats:
    """[hosts, resources]: of the rows that are on each."""
    columns = [np.bincount(at, values[:, column], hosts) for column in range(values.shape[1])]
    return np.stack(columns, axis=1)
