"""What a claim is worth with another bid: the prices that it is judged by, prepared once a period.

See Note [Claims that settle] in `floors.py`. A quote for another bid asks with which floor the VM
would contend then: the floor of its present bid may be out of reach, or less than it could have.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NOWHERE
from merkatd.market.demand import Bidder, Demand
from merkatd.market.floors import PART
from merkatd.market.market_view import MarketView
from merkatd.market.price import PriceRule


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """What VMs claim, [vms of the snapshot, resources]."""

    asked: Floats
    """Whether it is paid for or not,"""
    kept: Floats
    """and the part that a VM has whatever it bids."""


@dataclass(frozen=True, slots=True)
class PricedClaim:
    """Of one VM, by resource."""

    asked: tuple[float, ...]
    kept: tuple[float, ...]
    pool: int
    """Its host among those of the market, -1 for none."""
    now: tuple[Bidder, ...] | None
    """How it counts at present, without its floor; None where it doesn't."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimPrices:
    """One market as if no VM claimed anything."""

    claims: Claims
    """[vms of the market, resources]"""
    market: Demand
    """A pool a resource,"""
    hosts: Demand
    """and a pool a host and resource."""
    rows: Floats
    """[vms, resources, 3]: bid, 0, and cap of each."""
    bound: Floats
    """[resources]: the reserve prices."""
    total: Floats
    """[resources]: the market's capacity."""

    @classmethod
    def of(cls, view: MarketView, at: Ints, claims: Claims) -> Self:
        """Prepare the market, with each VM on the host in the row given for it."""
        there, kinds = np.flatnonzero(at != NOWHERE), view.capacity.shape[1]
        counted = view.counted(PriceRule.PAPER, at)
        bid, none, cap = (of[there].ravel() for of in counted)
        columns = np.arange(kinds)

        def demand(pool: Ints, capacity: Floats) -> Demand:
            pools = (pool[:, np.newaxis] * kinds + columns).ravel()
            return Demand.of(bid, none, cap, pools, capacity.ravel())

        own = Claims(claims.asked[view.vms], claims.kept[view.vms])
        return cls(
            claims=own,
            market=demand(np.zeros(len(there), dtype=np.int64), view.total),
            hosts=demand(at[there], view.capacity),
            rows=np.stack(counted, axis=2),
            bound=view.reserve,
            total=view.total,
        )

    def of_vm(self, vm: int, pool: int) -> PricedClaim:
        """The claim of a VM that is in the market."""
        now = tuple(Bidder(*row) for row in self.rows[vm].tolist())
        asked, kept = self.claims.asked[vm].tolist(), self.claims.kept[vm].tolist()
        return PricedClaim(tuple(asked), tuple(kept), pool, now if pool != NOWHERE else None)

    def floor(self, claim: PricedClaim, column: int, bid: float, cap: float) -> float:
        """How much of a claim holds with this bid, where the VM can use so much at most."""
        asked, kept = claim.asked[column], claim.kept[column]
        if asked <= kept:
            return kept
        new = Bidder(bid, 0.0, min(cap, self._most(claim.pool, column)))
        price = max(self._price(claim, column, 0.0, new), float(self.bound[column]))
        paid = bid * PART / price if price > 0 else asked
        return max(kept, min(asked, paid))

    def bid_for(self, claim: PricedClaim, column: int, amount: float) -> float | None:
        """The least bid with which so much of the claim holds; None where it is not claimed."""
        if amount > claim.asked[column]:
            return None
        price = max(self._price(claim, column, amount, None), float(self.bound[column]))
        found = price * amount / PART
        return found if np.isfinite(found) else None

    def _most(self, pool: int, column: int) -> float:
        """The most that one host has."""
        kinds = len(self.bound)
        if pool != NOWHERE:
            return float(self.hosts.capacity[pool * kinds + column])
        return float(self.hosts.capacity[column::kinds].max(initial=0.0))

    def _price(self, claim: PricedClaim, column: int, aside: float, new: Bidder | None) -> float:
        """Of a unit, once so much is set aside, with the new row in place of the present one."""
        now = None if claim.now is None else claim.now[column]
        left = max(float(self.total[column]) - aside, 0.0)
        levels = [self.market.level(column, left, now, new)]
        if claim.pool != NOWHERE:
            pool = claim.pool * len(self.bound) + column
            left = max(float(self.hosts.capacity[pool]) - aside, 0.0)
            levels.append(self.hosts.level(pool, left, now, new))
        return max(float("inf") if level == 0 else 1.0 / level for level in levels)
