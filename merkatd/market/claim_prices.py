"""Prices of claims: the floor that another bid would pay for, prepared once a period.

See Note [Claims that settle] in `floors.py`. A quote for another bid needs the VM's floor at that
bid. It can be lower or higher than the floor that the present bid pays for.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.demand import Bidder, Demand
from merkatd.market.floors import PART
from merkatd.market.market_view import MarketView
from merkatd.market.price import PriceRule


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """The claims of VMs, [vms of the snapshot, resources]."""

    asked: Floats
    """Claimed amounts, paid for or not."""
    kept: Floats
    """Part of each claim that the VM keeps at any bid."""


@dataclass(frozen=True, slots=True)
class PricedClaim:
    """The claim of one VM, by resource."""

    asked: tuple[float, ...]
    kept: tuple[float, ...]
    pool: int
    """Its host's row in the market, -1 for none."""
    now: tuple[Bidder, ...] | None
    """Its present rows in the market, without floors; None if it is on no host."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimPrices:
    """One market without any claims."""

    claims: Claims
    """Claims of the market's VMs, [vms of the market, resources]."""
    market: Demand
    """Demand with one pool per resource."""
    hosts: Demand
    """Demand with one pool per host and resource."""
    rows: Floats
    """[vms, resources, 3]: bid, 0 and cap of each VM."""
    bound: Floats
    """[resources]: the reserve prices."""
    total: Floats
    """[resources]: the market's capacity."""

    @classmethod
    def of(cls, view: MarketView, at: Ints, claims: Claims) -> Self:
        """Return the prepared market, with each VM on the host in row `at`."""
        there, kinds = np.flatnonzero(at != NO_HOST), view.capacity.shape[1]
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
        """Return the claim of a VM of the market."""
        now = tuple(Bidder(*row) for row in self.rows[vm].tolist())
        asked, kept = self.claims.asked[vm].tolist(), self.claims.kept[vm].tolist()
        return PricedClaim(tuple(asked), tuple(kept), pool, now if pool != NO_ROW else None)

    def floor(self, claim: PricedClaim, column: int, bid: float, cap: float) -> float:
        """Return the part of a claim that this bid pays for, if the VM can use at most `cap`."""
        asked, kept = claim.asked[column], claim.kept[column]
        if asked <= kept:
            return kept
        new = Bidder(bid, 0.0, min(cap, self._most(claim.pool, column)))
        price = max(self._price(claim, column, 0.0, new), float(self.bound[column]))
        paid = bid * PART / price if price > 0 else asked
        return max(kept, min(asked, paid))

    def bid_for(self, claim: PricedClaim, column: int, amount: float) -> float | None:
        """Return the least bid that pays for this amount of the claim; None if it claims less."""
        if amount > claim.asked[column]:
            return None
        price = max(self._price(claim, column, amount, None), float(self.bound[column]))
        cost = price * amount / PART
        return cost if np.isfinite(cost) else None

    def _most(self, pool: int, column: int) -> float:
        """Return the capacity of the VM's host, or of the largest host if it has none."""
        kinds = len(self.bound)
        if pool != NO_ROW:
            return float(self.hosts.capacity[pool * kinds + column])
        return float(self.hosts.capacity[column::kinds].max(initial=0.0))

    def _price(self, claim: PricedClaim, column: int, aside: float, new: Bidder | None) -> float:
        """Return the price of a unit after `aside` is reserved; `new` replaces the VM's row."""
        now = None if claim.now is None else claim.now[column]
        left = max(float(self.total[column]) - aside, 0.0)
        levels = [self.market.level(column, left, now, new)]
        if claim.pool != NO_ROW:
            pool = claim.pool * len(self.bound) + column
            left = max(float(self.hosts.capacity[pool]) - aside, 0.0)
            levels.append(self.hosts.level(pool, left, now, new))
        return max(float("inf") if level == 0 else 1.0 / level for level in levels)
