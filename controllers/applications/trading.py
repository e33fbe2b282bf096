"""What controllers of all kinds work out of the news: the market without themselves, their VMs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

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
    """Traces for JSON: of each VM one short text, as a platform may have thousands of them."""
    return {str(vm): ";".join(map(_written, rows)) for vm, rows in traces.items()}


def traces_of(memory: Mapping[str, Any]) -> dict[int, tuple[Trace, ...]]:
    """The traces that were kept so, or by the names of their numbers as they were once."""
    return {int(vm): tuple(map(_read, _apart(rows))) for vm, rows in memory.items()}


_ORDER: Final = ("change", "limit", "run", "market", "market_before", "short", "short_keeping")
"""In which the numbers of a trace are written: the last ones are often not known."""
_UNKNOWN: Final = "?"
_BLANK: Final = Trace()


def _written(trace: Trace) -> str:
    """Its numbers, to three digits: they are compared by factors of 1.1 and more."""
    words = [
        _UNKNOWN if value in {getattr(_BLANK, name), math.inf} else f"{value:.3g}"
        for name in _ORDER
        for value in (getattr(trace, name),)
    ]
    while words and words[-1] == _UNKNOWN:
        words.pop()
    return " ".join(words)


def _apart(rows: Any) -> Sequence[Any]:
    return rows.split(";") if isinstance(rows, str) else rows


def _read(one: Any) -> Trace:
    if isinstance(one, Mapping):
        return Trace(**one)
    known = {
        name: float(word)
        for name, word in zip(_ORDER, one.split(), strict=False)
        if word != _UNKNOWN
    }
    return Trace(**known | {"run": int(known.get("run", 0))})  # type: ignore[arg-type]
