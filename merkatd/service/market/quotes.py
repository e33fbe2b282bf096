"""The question `quote`: what bids get and cost now, or which bids it takes to get so much."""

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
from merkatd.service.base.errors import QuestionError
from merkatd.service.base.period_view import QuotedView

SIZE_WORDS = ("most", "least")
"""Of a VM that there is not yet: what it can use at most, and can't live without."""

_OF_FURTHER = {
    good: (good, f"want_{good}", *(f"{what}_{good}" for what in SIZE_WORDS)) for good in FURTHER
}


def only_sold(resources: Sequence[str], arguments: Arguments) -> None:
    """Raises QuestionError where something is said of a good that is not sold."""
    for good, words in _OF_FURTHER.items():
        if good in resources:
            continue
        for word in words:
            if arguments.get(word) is not None:
                raise QuestionError(f"{word}: {good} is not sold; {', '.join(resources)} are")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a quote is for."""

    quotes: Quotes
    place: QuotedPlace
    bid: Sequence[float]
    """What it bids at present, or would where nobody said anything."""
    about: Mapping[str, Any]
    """Its id and name, where it has any, host and market."""
    sharing: int | None = None
    """Where use is charged: how many VMs share the spending rate of which a bid is a part."""

    def rate(self, bid: float) -> float | None:
        """Credits for each core that is used for a period, with this bid for CPU."""
        return None if self.sharing is None else bid * self.sharing

    def quote(self, bids: Sequence[float]) -> tuple[Quote, ...]:
        """By resource, what these bids would get and cost; where use is charged, at most."""
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
    """The VM in this row. Raises QuestionError where it has no part in a market."""
    now = prepared.now
    snapshot = now.snapshot
    vm, at = int(snapshot.vms.id[row]), int(now.host[row])
    market = int(snapshot.vms.market[row] if at == NOWHERE else snapshot.hosts.market[at])
    if snapshot.vms.market[row] == NOWHERE or market == NOWHERE:
        raise QuestionError(f"VM {vm} belongs to no market: no bid gets it anything")
    quotes = prepared.quotes[market]
    place = quotes.place_of(row)
    if place is None:
        raise QuestionError(f"VM {vm} is {now.states[row]}: it holds nothing, so no bid counts")
    about = {"id": vm, "name": snapshot.vms.name[row]}
    rate = now.rates.get(vm)
    sharing = 1 if rate is None else rate.nvm
    return _subject(prepared, market, place, snapshot.vms.bid[row].tolist(), about, sharing)


def new_subject(
    prepared: QuotedView, markets: Sequence[MarketRules], arguments: Arguments
) -> Subject:
    """A VM that there could be: `market`, `most_cpu`, `least_memory` ... say which."""
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
            # Only CPU is divided: of all else a VM has what its template says.
            largest = least = max(most or 0.0, least)
        cap.append(max(largest, least) if most is None else most)
        floor.append(least)
        if least > cap[-1]:
            raise QuestionError(f"least_{name}: {least:g}: at most most_{name}, {most:g}, is right")
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
    """The quote for `cpu`, `memory` ... as bids and `want_cpu`, `want_memory` ... as amounts.

    A resource of which nothing is said keeps its bid. Where no bid gets what is wanted, none
    is named, and the share is the most that could be had.
    """
    quotes = subject.quotes
    names = quotes.resources
    only_sold(names, arguments)
    said = [number(arguments, name, MAX_AMOUNT) for name in names]
    wanted = [number(arguments, f"want_{name}", MAX_AMOUNT) for name in names]
    for name, bid, amount in zip(names, said, wanted, strict=True):
        if bid is not None and amount is not None:
            raise QuestionError(f"{name} and want_{name}: one of the two is right")
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
