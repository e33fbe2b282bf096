"""Full deadline, partial deadline, full performance, patient.

It suspends while the price is too high for the pace that is needed, and gives up when the
deadline can't be met any more, however much was spent; with `give_up = false` it goes on till then.

It tracks an allocation, all that its VMs can use, and suspends while not even a least part of it
can be had.

It runs until then whatever happens, unless its template says otherwise, and suspends only while not
even a least part of what its VMs can use can be had.

What simulation found to keep the most deadlines (`policies/patience.py`): it says up to which
price it would run, bids what full speed takes, and makes room as soon as those who pay as much or
more leave it less than it needs; but not within a rest of being resumed, nor with less time to
spare than a rest. When to start, and to go on, the manager reads in the same book.
"""

from collections.abc import Mapping, Sequence

from controllers.applications.iterative import Iterative
from controllers.applications.market_position import LEAST_BID, DecisionInput, market_without, purse
from merkatd.policies.deadline import missing_allocation, performance
from merkatd.policies.horizontal import bids_for
from merkatd.policies.patience import (
    Book,
    PatienceSettings,
    claim_while_running,
    limit_price,
    must_yield,
    need_of,
)
from merkatd.policies.suspension import rested
from merkatd.policies.vertical import Performance, VmPosition
from merkatd.protocol.platform_messages import Assignment, Claim, News


class FullDeadline(Iterative):
    """Tracks the pace that is needed (t_ref)."""

    def judged(self, scene: DecisionInput) -> Performance:
        """An iteration's time against the one that is needed."""
        return performance(scene.work, scene.usable_s, scene.pace_s)

    @property
    def gives_up(self) -> bool:
        """Unless its tenant wants to have what is made by the deadline."""
        return self.assignment.give_up


class FullPerformance(Iterative):
    """Tracks an allocation."""

    def judged(self, scene: DecisionInput) -> Performance:
        """What its VMs have against all that they can use."""
        return missing_allocation(scene.held)

    def why(self, judged: Performance) -> str:
        """What its tenant reads of a bid."""
        return f"its VMs have {1 / judged.value:.0%} of what they can use"


class PartialDeadline(FullDeadline):
    """Tracks the pace that is needed; goes on late, since `give_up` is false by default."""


CPU = "cpu"
TEMPER = PatienceSettings()


class Patient(FullDeadline):
    """Waits for nothing but room, and for as long as its deadline allows."""

    async def on_start(self) -> None:
        """Who waits must know until when."""
        await super().on_start()
        if self.deadline_s is None:
            await self.give_up("slo.deadline is missing: patience needs one")

    async def goes_on(self, scene: DecisionInput) -> bool:
        """While those who would pay as much leave room for it, and as long as it rests."""
        news, units = scene.news, units_of(self.assignment, scene.news)
        funds, capacity = purse(self.assignment, news), news.market.capacity[CPU]
        need = need_of(funds, units, capacity, scene.work.ideal_s, scene.left_s)
        limit = limit_price(need, self.assignment.interval_s, TEMPER)
        before = news.claim or Claim(price=0.0, units=units)
        price = claim_while_running(
            max(limit, before.price / TEMPER.clinging), funds, units, TEMPER
        )
        others = without(news.market.claims, before)
        book = Book(capacity, [*((one.price, one.units) for one in others), (price, units)])
        if units > 0 and must_yield(book, price) and rested(scene.case):
            room = max(book.room_above(price) + units, 0.0)
            await self.suspend(
                f"who pays {price:.3g} a unit of CPU or more leaves {room:g} of {units:g}"
            )
            return False
        if Claim(price=price, units=units) != news.claim:
            await self.claim(price, units)
        self._price = price
        return True

    async def bid(self, scene: DecisionInput, standings: Mapping[int, VmPosition]) -> None:
        """What full speed takes, and for CPU no more than the price it claimed."""
        market, count = market_without(scene.news), len(standings)
        bids = {}
        for vm, now in standings.items():
            whole = bids_for(count, now.most, market)
            ceiling = [
                self._price * size if name == CPU else scene.spending / count
                for name, size in zip(scene.names, now.most, strict=True)
            ]
            bids[vm] = {
                name: max(min(all_of_them / count, most), LEAST_BID)
                for name, all_of_them, most in zip(scene.names, whole, ceiling, strict=True)
            }
        await self.set_bids(bids, f"full speed, up to {self._price:.3g} a unit of CPU")


def without(claims: Sequence[Claim], own: Claim) -> list[Claim]:
    """Return all claims but one's own, which may count for less than all of its units."""
    mine = [one for one in claims if one.price == own.price and one.units <= own.units]
    if not mine:
        return list(claims)
    found = list(claims)
    found.remove(max(mine, key=lambda claim: claim.units))
    return found


def units_of(assignment: Assignment, news: News) -> float:
    """CPU that all its VMs can use."""
    return sum(
        terms.ceiling.get(CPU, 0.0) * news.sizes.get(terms.name, 0) for terms in assignment.clusters
    )
