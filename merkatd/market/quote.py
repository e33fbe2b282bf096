"""Quotes: the share and cost of a bid at present, and the bid for a wanted share.

A market is prepared once a period. After that a quote takes a few searches by halving, for any
number of VMs: nothing is summed up again. It equals the result of `share.py` and `price.py` if the
bid were really changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.claim_prices import ClaimPrices, Claims, PricedClaim
from merkatd.market.demand import Bidder, Demand
from merkatd.market.market_view import market_view, total_of
from merkatd.market.price import PriceRule, bid_that_buys, charges, price
from merkatd.market.quoted_place import Quote

LEAST_BID = 1e-6
"""A micro-credit: the quoted bid if any bid above 0 is enough."""
_FIRST_BATCH = 16
"""Number of least loaded hosts that are checked first; each next batch is twice as large."""


@dataclass(frozen=True, slots=True)
class QuotedPlace:
    """A real or possible VM on the host where it would compete."""

    host: int
    """The host's row in the snapshot; -1 if the VM fits on none: the market as one host replaces
    the host."""
    pool: int
    """The host's row in the market, -1 for none."""
    now: tuple[Bidder, ...] | None
    """Present rows in the market, by resource; None if the VM is on no host."""
    priced: tuple[Bidder, ...] | None
    """Present rows as the price counts them, by resource; None if the VM is on no host."""
    floor: tuple[float, ...]
    cap: tuple[float, ...]
    """The VM's size, whether or not its bid pays for it."""
    bids: bool = True
    """False while the VM is suspended or off: then it keeps its floor at any bid."""
    holds: tuple[float, ...] | None = None
    """Amounts that the VM holds whatever its share is."""
    claim: PricedClaim | None = None
    """The claim of which the present bid pays for `floor`; None if bids pay for no claims."""


@dataclass(frozen=True, slots=True, eq=False)
class Quotes:
    """One market, prepared for quotes."""

    resources: tuple[str, ...]
    rule: PriceRule
    reserve: Floats
    total: Floats
    """[resources]: the market's capacity."""
    hosts: Demand
    """Demand with one pool per host and resource."""
    market: Demand
    """Demand with one pool per resource, as if the market were one host."""
    priced: Demand
    """Demand as the price counts it, with one pool per resource: at most what VMs can use on their
    hosts, and with floors if the rule counts them."""
    capacity: Floats
    """[hosts, resources]"""
    open: Bools
    """[hosts]: whether the host takes new VMs; then it counts in the market's capacity."""
    disabled: Bools
    """[hosts]: whether only the usable part of the host counts in the market's capacity."""
    usable: Floats
    """[hosts, resources]: the amounts that VMs on disabled hosts can use, also above capacity."""
    host_rows: Ints
    """[hosts]: the host's row in the snapshot."""
    by_load: Ints
    """[open hosts]: the hosts by rising load; equal hosts keep their order."""
    room: Floats
    """[open hosts, resources]: the capacity less all floors, in the order of `by_load`."""
    local: Ints
    """[vms of the snapshot]: the VM's row in the market, -1 for VMs outside it."""
    at: Ints
    """[vms]: the host's row in the market, -1 for none."""
    rows: Floats
    """[vms, resources, 3]: bid, floor and cap."""
    priced_rows: Floats
    """[vms, resources, 3]: bid, floor and cap as the price counts them."""
    sizes: Floats
    """[vms, resources]: the caps, independent of bids."""
    bound: Floats
    """[resources]: the reserve prices that limit what a bid buys; 0 for no limit."""
    bidding: Sequence[bool]
    """[vms]: whether the VM runs or waits for a host."""
    holds: Floats
    """[vms, resources]: the amounts that VMs hold whatever their shares are."""
    claims: ClaimPrices | None = None
    """Prices of claims with other bids; None if bids pay for no claims."""

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
        """Return the prepared market in this row, with each VM on the host in row `host`.

        `holds` is [vms, resources] of the snapshot: the least amounts that VMs hold. `claims` has
        the full claims; the snapshot's floors are the parts that present bids pay for.
        """
        view = market_view(snapshot, market)
        among = np.full(len(snapshot.hosts) + 1, NO_ROW)
        among[view.hosts] = np.arange(len(view.hosts))
        at = among[host[view.vms]]
        there = np.flatnonzero(at != NO_HOST)
        kinds = len(snapshot.resources)
        columns = np.arange(kinds)

        def demand(rows: tuple[Floats, ...], pool: Ints, capacity: Floats) -> Demand:
            pools = (pool[:, np.newaxis] * kinds + columns).ravel()
            bid, floor, cap = (of[there].ravel() for of in rows)
            return Demand.of(bid, floor, cap, pools, capacity.ravel())

        triple = (view.bid, view.floor, view.cap)
        counted = view.counted(rule, at)
        together = np.zeros(len(there), dtype=np.int64)

        local = np.full(len(snapshot.vms), NO_ROW)
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
            hosts=demand(triple, at[there], view.capacity),
            market=demand(triple, together, view.total),
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
            rows=np.stack(triple, axis=2),
            priced_rows=np.stack(counted, axis=2),
            sizes=view.size,
            bound=view.reserve,
            bidding=snapshot.vms.bidding[view.vms].tolist(),
            holds=np.zeros_like(view.floor) if holds is None else holds[view.vms],
            claims=None if claims is None else ClaimPrices.of(view, at, claims),
        )

    def place_of(self, row: int) -> QuotedPlace | None:
        """Return the VM in this row of the snapshot, on its host or the host where it would start.

        Return None for a VM outside the market.
        """
        vm = int(self.local[row])
        if vm == NO_ROW:
            return None
        now = tuple(Bidder(*row) for row in self.rows[vm].tolist())
        floor, cap = tuple(row.floor for row in now), tuple(self.sizes[vm].tolist())
        pool, bids = int(self.at[vm]), self.bidding[vm]
        claim = self.claims.of_vm(vm, pool) if self.claims is not None and bids else None
        if pool == NO_ROW:
            place = self.place_for(floor, cap)
            return replace(place, claim=claim and replace(claim, pool=place.pool))
        priced = tuple(Bidder(*row) for row in self.priced_rows[vm].tolist())
        holds = tuple(self.holds[vm].tolist())
        host = int(self.host_rows[pool])
        return QuotedPlace(host, pool, now, priced, floor, cap, bids, holds, claim)

    def place_for(self, floor: Sequence[float], cap: Sequence[float]) -> QuotedPlace:
        """Return the place of a new VM: the host with the least load where its floor fits.

        Its bid must pay for the floor, if bids pay for claims.
        """
        pool, asked = self._roomy(np.array(floor)), tuple(floor)
        host = NO_HOST if pool == NO_ROW else int(self.host_rows[pool])
        claim = None if self.claims is None else PricedClaim(asked, (0.0,) * len(asked), pool, None)
        return QuotedPlace(host, pool, None, None, asked, tuple(cap), claim=claim)

    def quote(self, place: QuotedPlace, bid: Sequence[float]) -> tuple[Quote, ...]:
        """Return, by resource, the shares and costs of these bids there."""
        rows = [self._row(place, column, amount) for column, amount in enumerate(bid)]
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
        return tuple(Quote(*quote) for quote in outcome)

    def bid_for(
        self, place: QuotedPlace, wanted: Sequence[float | None]
    ) -> tuple[float | None, ...]:
        """Return, by resource, the least bid that gets the wanted amount there.

        Return None for a resource if no bid does, or if `wanted` is None.
        """
        return tuple(
            None if amount is None else self._bid_for(place, column, amount)
            for column, amount in enumerate(wanted)
        )

    def _row(self, place: QuotedPlace, column: int, bid: float) -> Bidder:
        """Return the VM's row with this bid: at most what it pays for at the reserve price."""
        cap, least = place.cap[column], float(self.bound[column])
        floor = self._floor(place, column, bid)
        return Bidder(bid, floor, min(cap, max(floor, bid / least)) if least else cap)

    def _floor(self, place: QuotedPlace, column: int, bid: float) -> float:
        """Return the part of the VM's claim that this bid pays for."""
        floor, least = place.floor[column], float(self.bound[column])
        if self.claims is None or place.claim is None:
            return floor
        if place.now is not None and place.now[column].bid == bid:
            return floor
        usable = min(place.cap[column], bid / least) if least else place.cap[column]
        return min(self.claims.floor(place.claim, column, bid, usable), place.cap[column])

    def _share(self, place: QuotedPlace, column: int, row: Bidder) -> float:
        """Return the share of this row, of one resource."""
        demand, pool, old = self._pool(place, column)
        capacity = float(demand.capacity[pool])
        floors = demand.floors(pool) - (old.floor if old is not None else 0.0) + row.floor
        if floors > capacity:
            return row.floor * (capacity / floors)
        if row.top == row.floor:
            return row.floor
        return row.gets(demand.level(pool, capacity, old, row))

    def _bid_for(self, place: QuotedPlace, column: int, amount: float) -> float | None:
        """Return the other VMs' price of a unit after the amount is reserved, times the amount."""
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
        """Return the price of a unit of each resource, with these rows replacing the VM's rows."""
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
        """Return the market's capacity: a bid can change the usable part of a disabled host.

        The sum runs in the market's order: if all caps just reach the capacity, the last digit
        decides the price.
        """
        if place.pool == NO_ROW or place.now is None or not self.disabled[place.pool]:
            return float(self.total[column])
        caps = self.rows[self.at == place.pool, column, 2]
        own = int(np.flatnonzero(caps == place.now[column].cap)[0])
        caps[own] = row.cap
        usable = self.usable.copy()
        usable[place.pool, column] = sum(caps.tolist())
        return float(total_of(self.capacity, self.open, self.disabled, usable)[column])

    def _counted(self, place: QuotedPlace, column: int, row: Bidder) -> Bidder:
        """Return the row as the price counts it, as in `MarketView.counted`."""
        if place.pool == NO_ROW:
            most = float(self.hosts.capacity[column :: len(self.resources)].max(initial=0.0))
        else:
            most = float(self.hosts.capacity[place.pool * len(self.resources) + column])
        cap = min(row.cap, most)
        floor = min(row.floor, cap) if self.rule is PriceRule.CLEARING else 0.0
        return Bidder(row.bid, floor, cap)

    def _pool(self, place: QuotedPlace, column: int) -> tuple[Demand, int, Bidder | None]:
        """Return the pool in which the VM competes for a resource, and its present row there."""
        old = None if place.now is None else place.now[column]
        if place.pool == NO_ROW:
            return self.market, column, old
        return self.hosts, place.pool * len(self.resources) + column, old

    def _roomy(self, floor: Floats) -> int:
        """Return the first host by load where the floor fits, -1 for none."""
        begin, size = 0, _FIRST_BATCH
        while begin < len(self.by_load):
            fits = np.flatnonzero((self.room[begin : begin + size] >= floor).all(axis=1))
            if len(fits):
                return int(self.by_load[begin + fits[0]])
            begin, size = begin + size, size * 2
        return NO_ROW


def _by_load(bids: Floats, capacity: Floats, room: Floats, open_: Ints) -> tuple[Ints, Floats]:
    """Return open hosts by rising load (the largest over the resources), and their free room."""
    there = capacity[open_]
    none = np.full_like(there, np.inf)
    load = np.divide(bids[open_], there, out=none, where=there > 0).max(axis=1, initial=0.0)
    order = open_[np.argsort(load, kind="stable")]
    return order, room[order]


def _sums(values: Floats, at: Ints, hosts: int) -> Floats:
    """Return [hosts, resources]: the sums of the values of the VMs on each host."""
    columns = [np.bincount(at, values[:, column], hosts) for column in range(values.shape[1])]
    return np.stack(columns, axis=1)
