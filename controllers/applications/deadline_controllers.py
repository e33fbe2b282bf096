"""Controllers of iterative applications with deadlines.

- `FullDeadline` suspends while the price is too high for the needed pace. It gives up when the
  deadline can no longer be met, whatever was spent; with `give_up = false` it runs until then.
- `FullPerformance` tracks an allocation, its VMs' full size. It suspends while it can't pay for the
  least part of it.
- `PartialDeadline` runs until its deadline, unless its template says otherwise. It suspends only
  while it can't pay for the least part of its VMs' full size.
- `Patient` met the most deadlines in simulation (`policies/patience.py`). The VMs of its platform
  run in a limit order: the scheduler starts and saves them. `Patient` states the most that they may
  cost per period, which rises as the deadline comes near.
"""

from controllers.applications.iterative import Iterative
from controllers.applications.market_position import DecisionInput, available_credits
from merkatd.base.quantities import credits_text
from merkatd.policies.deadline import missing_allocation, performance
from merkatd.policies.patience import PatienceSettings, most_credits, share_of
from merkatd.policies.vertical import Performance
from merkatd.protocol.platform_messages import Assignment, News


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


TEMPER = PatienceSettings()


class Patient(FullDeadline):
    """Says how much its platform's limit order may cost, and bids nothing."""

    _has_acted = False
    """Whether this process has stated a limit: the daemon learns from it that it works."""

    async def goes_on(self, decision_input: DecisionInput) -> bool:
        """State the limit; return False, as the VMs bid nothing."""
        news, limit = decision_input.news, self._limit(decision_input)
        stated = None if news.order is None else news.order.limit
        if limit > 0 and (limit != stated or not self._has_acted):
            await self.set_limit(limit)
            self._has_acted = True
        return False

    def summary(self, decision_input: DecisionInput, spare_s: float) -> str:
        """Describe the progress, and what the VMs cost."""
        progress, order = super().summary(decision_input, spare_s), decision_input.news.order
        if order is None or not order.runs or order.cost is None:
            return progress
        return (
            f"{progress}; runs for at most {credits_text(order.limit)} credits a period, pays"
            f" {credits_text(order.cost)}"
        )

    def _limit(self, decision_input: DecisionInput) -> float:
        """Return the most credits per period; while the order runs, this never falls."""
        news, funds = decision_input.news, available_credits(self.assignment, decision_input.news)
        bundle = bundle_of(self.assignment, news)
        limit = most_credits(
            funds,
            share_of(bundle, news.market.capacity),
            sum(news.market.reserve[name] * amount for name, amount in bundle.items()),
            decision_input.work.ideal_s,
            decision_input.left_s,
            self.assignment.interval_s,
            TEMPER,
        )
        if news.order is not None and news.order.runs:
            limit = max(limit, news.order.limit)
        return min(limit, funds.credits)


def bundle_of(assignment: Assignment, news: News) -> dict[str, float]:
    """Return the amounts that all VMs of a platform can use, of the goods that are sold."""
    return {
        name: sum(
            terms.ceiling.get(name, 0.0) * news.sizes.get(terms.name, 0)
            for terms in assignment.clusters
        )
        for name in news.market.capacity
    }
