"""What controllers of all kinds work out of the news: the market without themselves, their VMs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from controllers.policies.bound import Prices, bids_for, others_price
from controllers.policies.deadline import Purse
from controllers.policies.vertical import Standing, Trace
from merkatd.platforms.ports import Assignment, ClusterTerms, News, VmNow

LEAST_BID = 1e-6
"""Credits; the ledger knows no less."""

Sizes = tuple[float, ...]
"""By resource, in the order of the prices."""


def bidding(vms: Iterable[VmNow], cluster: str | None = None) -> list[VmNow]:
    """Those whose bids count in the next period, of one cluster or of all."""
    there = {"running", "pending"}
    return [one for one in vms if one.state in there and cluster in {None, one.cluster}]


def market_without(news: News) -> Prices:
    """The market as it would be without one's own bids, which would chase themselves upward."""
    own = dict.fromkeys(news.prices, 0.0)
    for vm in bidding(news.vms):
        for name, bid in vm.bid.items():
            own[name] = own.get(name, 0.0) + bid
    market = news.market
    return Prices(
        others=tuple(
            others_price(price, own[name], market.capacity[name], market.reserve[name])
            for name, price in market.prices.items()
        ),
        capacity=tuple(market.capacity[name] for name in market.prices),
    )


def purse(assignment: Assignment, news: News) -> Purse:
    """What there is, and what will be added."""
    return Purse(
        credits=max(news.balance, 0.0),
        renewal=news.replenishment,
        renewal_s=assignment.replenishment_s or math.inf,
    )


def most(terms: ClusterTerms, names: Iterable[str]) -> Sizes:
    """All that a VM of the cluster can use; goods that it knows no bound for it does without."""
    return tuple(terms.ceiling.get(name, 0.0) for name in names)


def standing(terms: ClusterTerms, vm: VmNow, market: Prices, names: Sequence[str]) -> Standing:
    """A VM in the market."""
    sizes = most(terms, names)
    return Standing(
        bid=tuple(vm.bid.get(name, 0.0) for name in names),
        allocation=tuple(vm.allocation.get(name, 0.0) for name in names),
        least=tuple(terms.floor.get(name, 0.0) for name in names),
        most=sizes,
        keeping=bids_for(1, sizes, market),
    )


def held_part(now: Standing) -> float:
    """Of all that a VM can use, the part that it has, in its scarcest resource."""
    parts = [got / size for got, size in zip(now.allocation, now.most, strict=True) if size > 0]
    return min(parts, default=1.0)


def kept(traces: Mapping[int, Sequence[Trace]]) -> dict[str, Any]:
    """Traces for JSON, which knows nothing infinite."""
    return {str(vm): [_finite(one) for one in rows] for vm, rows in traces.items()}


def traces_of(memory: Mapping[str, Any]) -> dict[int, tuple[Trace, ...]]:
    """The traces that were kept so."""
    return {int(vm): tuple(Trace(**one) for one in rows) for vm, rows in memory.items()}


def _finite(trace: Trace) -> dict[str, Any]:
    return {name: value for name, value in asdict(trace).items() if value != math.inf}
