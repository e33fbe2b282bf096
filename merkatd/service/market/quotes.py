"""The question `quote`: the share and cost of bids, or the bids for wanted amounts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from merkatd.base.quantities import finite
from merkatd.cluster.columns import NOWHERE
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.quote import QuotedPlace, Quotes
from merkatd.market.quoted_place import Quote
from merkatd.scheduler.base.settings import FURTHER, MarketRules
from merkatd.scheduler.charging.used_cpu import CPU
from merkatd.scheduler.observation.bidders import MAX_AMOUNT
from merkatd.service.base.arguments import Arguments, number, one_of
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import QuotedView

SIZE_WORDS = ("most", "least")
"""The prefixes of the size of a planned VM: the most that it can use, and its floor."""

_OF_FURTHER = {
    good: (good, f"want_{good}", *(f"{what}_{good}" for what in SIZE_WORDS)) for good in FURTHER
}


def only_sold(resources: Sequence[str], arguments: Arguments) -> None:
    """Raise InvalidRequestError if an argument is about a good that is not sold."""
    for good, words in _OF_FURTHER.items():
        if good in resources:
            continue
        for word in words:
            if arguments.get(word) is not None:
                raise InvalidRequestError(
                    f"{word}: {good} is not sold; sold: {', '.join(resources)}"
                )


@dataclass(frozen=True, slots=True)
class Subject:
    """The VM of a quote, existing or planned."""

    quotes: Quotes
    place: QuotedPlace
    bid: Sequence[float]
    """The present or default bid by resource."""
    about: Mapping[str, Any]
    """The host and market, and the id and name of an existing VM."""
    sharing: int | None = None
    """The number of VMs that share a spending rate; None if the market charges for shares."""

    def rate(self, bid: float) -> float | None:
        """Return the credits per core used for a period, with this bid for CPU."""
        return None if self.sharing is None else bid * self.sharing

    def quote(self, bids: Sequence[float]) -> tuple[Quote, ...]:
        """Return the share and cost of these bids by resource; if use is charged, the most."""
        found = self.quotes.quote(self.place, bids)
        rate = self.rate(bids[CPU])
        if rate is None:
            return found
        used = rate / UNITS_PER_CORE if self.place.bids else 0.0
        prices = [used if column == CPU else 0.0 for column in range(len(found))]
        return tuple(
            replace(one, price=price, cost=price * one.share)
            for one, price in zip(found, prices, strict=True)
        )


def vm_subject(prepared: QuotedView, row: int) -> Subject:
    """Return the VM in this row. Raise InvalidRequestError if it takes no part in a market."""
    now = prepared.now
    snapshot = now.snapshot
    vm, at = int(snapshot.vms.id[row]), int(now.host[row])
    market = int(snapshot.vms.market[row] if at == NOWHERE else snapshot.hosts.market[at])
    if snapshot.vms.market[row] == NOWHERE or market == NOWHERE:
        raise InvalidRequestError(f"VM {vm} belongs to no market, so it can't bid")
    quotes = prepared.quotes[market]
    place = quotes.place_of(row)
    if place is None:
        raise InvalidRequestError(
            f"VM {vm} is {now.states[row]} and has no resources, so it can't bid"
        )
    about = {"id": vm, "name": snapshot.vms.name[row]}
    rate = now.rates.get(vm)
    sharing = 1 if rate is None else rate.nvm
    return _subject(prepared, market, place, snapshot.vms.bid[row].tolist(), about, sharing)


def new_subject(
    prepared: QuotedView, markets: Sequence[MarketRules], arguments: Arguments
) -> Subject:
    """Return a planned VM, described by `market`, `most_cpu`, `least_memory` ..."""
    names = [market.name for market in markets]
    chosen = one_of(arguments, "market", names)
    row = 0 if chosen is None else names.index(chosen)
    quotes = prepared.quotes[row]
    floor, cap = [], []
    for column, name in enumerate(quotes.resources):
        most = number(arguments, f"most_{name}", MAX_AMOUNT)
        least = number(arguments, f"least_{name}", MAX_AMOUNT) or 0.0
        largest = float(quotes.hosts.capacity[column :: len(quotes.resources)].max(initial=0.0))
        if markets[row].by_use and column != CPU:
            # This market divides only CPU: all other resources are fixed by the VM's template.
            largest = least = max(most or 0.0, least)
        cap.append(max(largest, least) if most is None else most)
        floor.append(least)
        if least > cap[-1]:
            raise InvalidRequestError(
                f"least_{name}: must be at most most_{name}, {most:g} (got {least:g})"
            )
    bid = [
        0.0 if markets[row].by_use and column != CPU else markets[row].default_bid.get(name, 0.0)
        for column, name in enumerate(quotes.resources)
    ]
    return _subject(prepared, row, quotes.place_for(floor, cap), bid, {}, 1)


def _subject(
    prepared: QuotedView,
    market: int,
    place: QuotedPlace,
    bid: Sequence[float],
    about: Mapping[str, Any],
    sharing: int,
) -> Subject:
    hosts = prepared.now.snapshot.hosts
    where = {
        "host": None if place.host == NOWHERE else hosts.name[place.host],
        "market": prepared.now.market_name(market),
        "period": prepared.latest.period,
    }
    by_use = prepared.by_use[market]
    quotes = prepared.quotes[market]
    return Subject(quotes, place, bid, {**about, **where}, sharing if by_use else None)


def quote_row(subject: Subject, arguments: Arguments) -> dict[str, Any]:
    """Return the quote for bids (`cpu`, `memory` ...) or amounts (`want_cpu`, `want_memory` ...).

    A resource without an argument keeps its bid. If no bid gets the wanted amount, the quote has
    no bid for it, and its share is the largest possible share.
    """
    quotes = subject.quotes
    names = quotes.resources
    only_sold(names, arguments)
    said = [number(arguments, name, MAX_AMOUNT) for name in names]
    wanted = [number(arguments, f"want_{name}", MAX_AMOUNT) for name in names]
    for name, bid, amount in zip(names, said, wanted, strict=True):
        if bid is not None and amount is not None:
            raise InvalidRequestError(f"{name} and want_{name}: only one of the two may be given")
    needed = quotes.bid_for(subject.place, wanted)
    none = [
        amount is not None and (bid is None or bid > MAX_AMOUNT)
        for amount, bid in zip(wanted, needed, strict=True)
    ]
    bids = [
        MAX_AMOUNT
        if hopeless
        else (bid or 0.0)
        if amount is not None
        else held
        if at is None
        else at
        for hopeless, bid, amount, held, at in zip(
            none, needed, wanted, subject.bid, said, strict=True
        )
    ]
    rows: list[dict[str, Any]] = [
        {
            "resource": one.resource,
            "wanted": amount,
            "bid": None if hopeless else one.bid,
            "share": one.share,
            "most": most,
            "price": None if hopeless else finite(one.price),
            "cost": None if hopeless else finite(one.cost),
        }
        for one, amount, hopeless, most in zip(
            subject.quote(bids), wanted, none, subject.place.cap, strict=True
        )
    ]
    costs = [row["cost"] for row in rows]
    total = None if None in costs else sum(costs)
    rate = None if none[CPU] else subject.rate(bids[CPU])
    charged = {} if rate is None else {"rate": rate}
    return {**subject.about, **charged, "cost": total, "resources": rows}
