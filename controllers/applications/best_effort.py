"""The controller for best effort: as much as its budget buys over the remaining time.

The budget is spread evenly over the periods until the deadline, or over a moving horizon without a
deadline. A period's part buys as many VMs of full size as possible (Algorithm 3). Each VM bids up
to its own part, and less as soon as less keeps its full size (Algorithm 2).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from controllers.applications.cooldown import Cooldown
from controllers.applications.market_position import (
    LEAST_BID,
    available_credits,
    bidding,
    has_market,
    market_without,
    most,
    traces_of,
    traces_to_keep,
    vm_positions,
)
from controllers.controller import Controller
from merkatd.base.parameter_bounds import number
from merkatd.policies.deadline import bid_max
from merkatd.policies.horizontal import Prices, upper_bound
from merkatd.policies.vertical import BidTrace, Performance, SpendingLimit, adapt
from merkatd.protocol.platform_messages import Amounts, Assignment, ClusterTerms, News, VmNow

_WANTING = Performance(value=2.0, reference=1.0, low=0.75, high=0.95)
"""A performance that always needs more."""
_PENDING = "pending"


@dataclass(frozen=True, slots=True)
class WantedSize:
    """The size and the bids to request for one virtual cluster."""

    size: int
    bids: Mapping[int, Amounts]
    traces: Mapping[int, tuple[BidTrace, ...]] = field(default_factory=dict)


def part(assignment: Assignment, news: News, horizon_s: float) -> float:
    """Return the spending limit of all VMs together in a period."""
    left_s = horizon_s if news.deadline_s is None else news.deadline_s - news.at_s
    return bid_max(available_credits(assignment, news), left_s, assignment.interval_s, 1)


def wish(
    terms: ClusterTerms,
    vms: Sequence[VmNow],
    names: Sequence[str],
    market: Prices,
    spending: float,
    traces: Mapping[int, Sequence[BidTrace]],
) -> WantedSize:
    """Return the size and bids of a cluster with this spending limit per period."""
    mine = bidding(vms)
    size = _size(terms, vms, names, market, spending)
    if not mine:
        return WantedSize(size, {})
    means = SpendingLimit(bid_min=LEAST_BID, bid_max=spending / len(mine))
    if means.bid_max <= LEAST_BID * len(names):
        return WantedSize(size, {vm.vm: dict.fromkeys(names, 0.0) for vm in mine})
    # Resources without a known ceiling are unlimited.
    unbound = tuple(terms.ceiling.get(name, math.inf) for name in names)
    positions = vm_positions({terms.name: terms}, mine, market, names)
    adapted = {
        vm: adapt(replace(position, most=unbound), _WANTING, means, traces.get(vm, ()))
        for vm, position in positions.items()
    }
    return WantedSize(
        size,
        {vm: dict(zip(names, bidding.bid, strict=True)) for vm, bidding in adapted.items()},
        {vm: bidding.traces for vm, bidding in adapted.items()},
    )


def _size(
    terms: ClusterTerms,
    vms: Sequence[VmNow],
    names: Sequence[str],
    market: Prices,
    spending: float,
) -> int:
    """Return the number of VMs: at most one more, and no more while a VM is pending."""
    if not terms.ceiling.keys() >= {*names}:
        return max(len(vms), terms.least)  # the cost of a full size is unknown
    bound = upper_bound(terms.most, spending, most(terms, names), market).vms
    if any(vm.state == _PENDING for vm in vms):
        bound = min(bound, len(vms))
    return max(terms.least, min(bound, len(vms) + 1))


class BestEffort(Controller):
    """Requests the result of `wish` for every cluster."""

    async def on_price(self, news: News) -> None:
        """Request what the credits of one period can buy."""
        if not has_market(news):
            return
        horizon_s = number(self.assignment.parameters, "horizon_s")
        spending = part(self.assignment, news, horizon_s)
        market, names = market_without(news), tuple(news.prices)
        largest_size = sum(cluster.most for cluster in self.assignment.clusters)
        for terms in self.assignment.clusters:
            mine = [vm for vm in news.vms if vm.cluster == terms.name]
            traces = traces_of(self.memory.get(terms.name, {}))
            wished = wish(terms, mine, names, market, spending * terms.most / largest_size, traces)
            await self._say(terms, news, self._cooled(terms, news, wished), spending)
            self.memory[terms.name] = traces_to_keep(wished.traces)

    def _cooled(self, terms: ClusterTerms, news: News, wished: WantedSize) -> WantedSize:
        """Return the wish, with the present size during a cooldown."""
        size = news.sizes.get(terms.name)
        if size is None or not terms.least <= size <= terms.most:
            return wished
        cooldown = Cooldown.of(self.memory, self.assignment.parameters)
        may_grow = cooldown.may_grow(terms.name, news.at_s)
        may_shrink = cooldown.may_shrink(terms.name, news.at_s)
        least, most_ = 0 if may_shrink else size, wished.size if may_grow else size
        return replace(wished, size=max(least, min(wished.size, most_)))

    async def _say(
        self, terms: ClusterTerms, news: News, wished: WantedSize, spending: float
    ) -> None:
        reason = f"its spending limit is {spending:g} credits per period"
        if wished.bids:
            await self.set_bids(wished.bids, reason)
        if wished.size != news.sizes.get(terms.name):
            outcome = await self.set_size(terms.name, wished.size, reason=reason)
            if outcome.accepted:
                Cooldown.of(self.memory, self.assignment.parameters).begin(terms.name, news.at_s)
