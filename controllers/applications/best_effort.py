"""Best effort: as much as its budget can buy over the time that is left, and no more.

Each period has its part of what there is until the deadline, or over a horizon that moves along
where there is none. That part buys VMs at their full size, as many as it can (Algorithm 3); each
bids up to its own part of it, and less as soon as less keeps its full size (Algorithm 2).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from controllers.controller import Controller
from controllers.policies.bound import Prices, bids_for, upper_bound
from controllers.policies.deadline import Purse, bid_max
from controllers.policies.vertical import Means, Performance, Standing, Trace, adapt
from merkatd.platforms.ports import Amounts, Assignment, ClusterTerms, News, VmNow

HORIZON_S = 86_400.0
"""Where there is no deadline: what there is has to last for so long, from any moment on."""
LEAST_BID = 1e-6
"""Credits; the ledger knows no less."""
_WANTING = Performance(value=2.0, reference=1.0, low=0.75, high=0.95)
"""It could always use more."""
_RUNNING, _PENDING = "running", "pending"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be asked for in one virtual cluster."""

    size: int
    bids: Mapping[int, Amounts]
    traces: Mapping[int, tuple[Trace, ...]] = field(default_factory=dict)


def part(assignment: Assignment, news: News, horizon_s: float) -> float:
    """What may be spent in a period by all VMs together."""
    left_s = horizon_s if news.deadline_s is None else news.deadline_s - news.at_s
    purse = Purse(
        credits=max(news.balance, 0.0),
        renewal=assignment.replenishment,
        renewal_s=assignment.replenishment_s or math.inf,
    )
    return bid_max(purse, left_s, assignment.interval_s, 1)


def wish(
    terms: ClusterTerms,
    vms: Sequence[VmNow],
    prices: Amounts,
    spending: float,
    traces: Mapping[int, Sequence[Trace]],
) -> Wish:
    """What to ask for with so many credits a period."""
    bidding = [one for one in vms if one.state in {_RUNNING, _PENDING}]
    size = _size(terms, vms, prices, spending)
    if not bidding:
        return Wish(size, {})
    means = Means(bid_min=LEAST_BID, bid_max=spending / len(bidding))
    if means.bid_max <= LEAST_BID * len(prices):
        return Wish(size, {one.vm: dict.fromkeys(prices, 0.0) for one in bidding})
    adapted = {
        one.vm: adapt(_standing(terms, one, prices), _WANTING, means, traces.get(one.vm, ()))
        for one in bidding
    }
    return Wish(
        size,
        {vm: dict(zip(prices, one.bid, strict=True)) for vm, one in adapted.items()},
        {vm: one.traces for vm, one in adapted.items()},
    )


def _size(terms: ClusterTerms, vms: Sequence[VmNow], prices: Amounts, spending: float) -> int:
    """How many VMs: one more at a time, and none while one is still coming."""
    most = _most(terms, prices)
    if not all(map(math.isfinite, most)):
        return max(len(vms), terms.least)  # what a full size costs is not known
    bound = upper_bound(terms.most, spending, most, _market(prices)).vms
    if any(one.state == _PENDING for one in vms):
        bound = min(bound, len(vms))
    return max(terms.least, min(bound, len(vms) + 1))


def _most(terms: ClusterTerms, prices: Amounts) -> tuple[float, ...]:
    return tuple(terms.ceiling.get(name, math.inf) for name in prices)


def _market(prices: Amounts) -> Prices:
    """The market as one who is small in it sees it."""
    return Prices(others=tuple(prices.values()), capacity=(math.inf,) * len(prices))


def _standing(terms: ClusterTerms, vm: VmNow, prices: Amounts) -> Standing:
    most = _most(terms, prices)
    full = bids_for(1, [0.0 if math.isinf(one) else one for one in most], _market(prices))
    return Standing(
        bid=tuple(vm.bid.get(name, 0.0) for name in prices),
        allocation=tuple(vm.allocation.get(name, 0.0) for name in prices),
        least=tuple(terms.floor.get(name, 0.0) for name in prices),
        most=most,
        keeping=full,
    )


class BestEffort(Controller):
    """Asks for what `wish` says, in every cluster."""

    async def on_price(self, news: News) -> None:
        """Ask for what the credits of one period can buy."""
        horizon_s = float(self.assignment.parameters.get("horizon_s", HORIZON_S))
        spending = part(self.assignment, news, horizon_s)
        whole = sum(one.most for one in self.assignment.clusters)
        for terms in self.assignment.clusters:
            mine = [one for one in news.vms if one.cluster == terms.name]
            traces = _traces(self.memory.get(terms.name, {}))
            wished = wish(terms, mine, news.prices, spending * terms.most / whole, traces)
            await self._say(terms, news.sizes.get(terms.name), wished, spending)
            self.memory[terms.name] = {
                str(vm): [_kept(one) for one in rows] for vm, rows in wished.traces.items()
            }

    async def _say(
        self, terms: ClusterTerms, size: int | None, wished: Wish, spending: float
    ) -> None:
        reason = f"{spending:g} credits a period can be spent"
        if wished.bids:
            await self.set_bids(wished.bids, reason)
        if wished.size != size:
            await self.set_size(terms.name, wished.size, reason=reason)


def _kept(trace: Trace) -> dict[str, Any]:
    """A trace for JSON, which knows nothing infinite."""
    return {name: value for name, value in asdict(trace).items() if value != math.inf}


def _traces(kept: Mapping[str, Any]) -> dict[int, tuple[Trace, ...]]:
    return {int(vm): tuple(Trace(**one) for one in rows) for vm, rows in kept.items()}
