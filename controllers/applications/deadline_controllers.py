"""Controllers of iterative applications with deadlines.

- `FullDeadline` suspends while the price is too high for the needed pace. It gives up when the
  deadline can no longer be met, whatever was spent; with `give_up = false` it runs until then.
- `FullPerformance` tracks an allocation, its VMs' full size. It suspends while it can't pay for the
  least part of it.
- `PartialDeadline` runs until its deadline, unless its template says otherwise. It suspends only
  while it can't pay for the least part of its VMs' full size.
- `Patient` met the most deadlines in simulation (`policies/patience.py`). It publishes the highest
  price that it would pay, and bids for full speed. It yields as soon as claims at this price or
  above leave it less than it needs. But it does not yield within a rest of being resumed, nor with
  less time to spare than a rest. The manager uses the same book to start and resume it.
"""

from collections.abc import Mapping, Sequence

from controllers.applications.iterative import Iterative
from controllers.applications.market_position import (
    LEAST_BID,
    DecisionInput,
    available_credits,
    market_without,
)
from merkatd.policies.deadline import missing_allocation, performance
from merkatd.policies.horizontal import bids_for
from merkatd.policies.patience import (
    ClaimBook,
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
    """Tracks the needed pace (t_ref)."""

    def judged(self, decision_input: DecisionInput) -> Performance:
        """Return the time of an iteration against the needed time."""
        return performance(decision_input.work, decision_input.usable_s, decision_input.pace_s)

    @property
    def gives_up(self) -> bool:
        """Return True, unless finished parts of the work have value for the tenant."""
        return self.assignment.give_up


class FullPerformance(Iterative):
    """Tracks an allocation."""

    def judged(self, decision_input: DecisionInput) -> Performance:
        """Return the allocation of its VMs against their full size."""
        return missing_allocation(decision_input.held)

    def why(self, judged: Performance) -> str:
        """Return the reason of a bid, for the tenant."""
        return f"its VMs have {1 / judged.value:.0%} of their full size"


class PartialDeadline(FullDeadline):
    """Tracks the needed pace; goes on when it is late, since `give_up` is false by default."""


CPU = "cpu"
TEMPER = PatienceSettings()


class Patient(FullDeadline):
    """Waits for room in the market, as long as its deadline allows."""

    async def on_start(self) -> None:
        """Give up if the template has no deadline."""
        await super().on_start()
        if self.deadline_s is None:
            await self.give_up("slo.deadline is missing: kind `patient` needs a deadline")

    async def goes_on(self, decision_input: DecisionInput) -> bool:
        """Return whether it goes on; suspend it if it has rested and lacks room beside claims."""
        news, units = decision_input.news, units_of(self.assignment, decision_input.news)
        funds, capacity = available_credits(self.assignment, news), news.market.capacity[CPU]
        need = need_of(funds, units, capacity, decision_input.work.ideal_s, decision_input.left_s)
        limit = limit_price(need, self.assignment.interval_s, TEMPER)
        before = news.claim or Claim(price=0.0, units=units)
        price = claim_while_running(
            max(limit, before.price / TEMPER.running_factor), funds, units, TEMPER
        )
        others = other_claims(news.market.claims, before)
        book = ClaimBook(
            capacity, [*((other.price, other.units) for other in others), (price, units)]
        )
        if units > 0 and must_yield(book, price) and rested(decision_input.case):
            room = max(book.room_above(price) + units, 0.0)
            await self.suspend(
                f"claims at {price:.3g} or more per unit of CPU leave {room:g} of the {units:g}"
                " units it needs"
            )
            return False
        if Claim(price=price, units=units) != news.claim:
            await self.claim(price, units)
        self._price = price
        return True

    async def bid(self, decision_input: DecisionInput, standings: Mapping[int, VmPosition]) -> None:
        """Bid for full speed; for CPU at most the claimed price."""
        market, count = market_without(decision_input.news), len(standings)
        bids = {}
        for vm, now in standings.items():
            full_bids = bids_for(count, now.most, market)
            ceiling = [
                self._price * size if name == CPU else decision_input.spending / count
                for name, size in zip(decision_input.names, now.most, strict=True)
            ]
            bids[vm] = {
                name: max(min(all_of_them / count, most), LEAST_BID)
                for name, all_of_them, most in zip(
                    decision_input.names, full_bids, ceiling, strict=True
                )
            }
        await self.set_bids(bids, f"full speed, up to {self._price:.3g} per unit of CPU")


def other_claims(claims: Sequence[Claim], own: Claim) -> list[Claim]:
    """Return all claims except the own claim, which may be published with fewer units."""
    mine = [claim for claim in claims if claim.price == own.price and claim.units <= own.units]
    if not mine:
        return list(claims)
    others = list(claims)
    others.remove(max(mine, key=lambda claim: claim.units))
    return others


def units_of(assignment: Assignment, news: News) -> float:
    """Return the CPU that all VMs of a platform can use."""
    return sum(
        terms.ceiling.get(CPU, 0.0) * news.sizes.get(terms.name, 0) for terms in assignment.clusters
    )
