"""Quotes: the share and cost of bids, or the bids for wanted amounts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from merkatd.base.quantities import finite
from merkatd.cluster.columns import NO_HOST, NO_MARKET
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.quote import QuotedPlace, Quotes
from merkatd.market.quoted_place import Quote
from merkatd.scheduler.base.settings import FURTHER
from merkatd.scheduler.charging.used_cpu import CPU
from merkatd.scheduler.traits.template_values import MAX_AMOUNT
from merkatd.service.base.arguments import checked_amount, one_of
from merkatd.service.base.callers import USE, Caller, CallerRights
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import QuotedView
from merkatd.service.base.visibility import permitted_vm_row

Amounts = Mapping[str, float]
"""Bids or amounts by resource; a missing resource is not given."""
MOST, LEAST, WANTED = "most_", "least_", "want_"
"""The prefixes of a resource's name in texts about the caps and floors of a planned VM, and about
wanted amounts. A resource without a prefix means its bid."""


@dataclass(frozen=True, slots=True)
class ExistingVm:
    """The VM of this id."""

    vm: int


@dataclass(frozen=True, slots=True)
class PlannedVm:
    """A VM that does not exist yet."""

    market: str | None = None
    """Its market; None means the first."""
    floor: Amounts = field(default_factory=dict)
    """Its floors; by default 0."""
    cap: Amounts = field(default_factory=dict)
    """Its caps; by default all of a host."""


@dataclass(frozen=True, slots=True)
class QuotedResource:
    """The quote of one resource."""

    resource: str
    wanted: float | None
    """The wanted amount, if any was given."""
    bid: float | None
    """The bid; None if no bid gets the wanted amount."""
    share: float
    """The share with that bid; if no bid gets the wanted amount, the largest possible share."""
    most: float
    """The VM's cap."""
    price: float | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class QuotedVm:
    """The quote of a VM."""

    vm: int | None
    """The id of an existing VM."""
    name: str | None
    """The name of an existing VM."""
    host: str | None
    """Its host, or the host that would be tried first."""
    market: str | None
    period: int
    rate: float | None
    """The credits per core used for a period, if the market charges for use."""
    cost: float | None
    """The cost of a whole period for all resources; None if a resource can't be bought."""
    resources: Sequence[QuotedResource]


class QuoteService:
    """The quotes of existing and planned VMs."""

    def __init__(self, rights: CallerRights) -> None:
        self._rights = rights

    async def quote(
        self,
        caller: Caller,
        view: QuotedView,
        subject: ExistingVm | PlannedVm,
        bids: Amounts,
        wanted: Amounts,
    ) -> QuotedVm:
        """Return the quote for bids and wanted amounts, with all other bids unchanged.

        A resource with neither keeps its bid. Raise RequestError.
        """
        if isinstance(subject, PlannedVm):
            place = planned_place(view, subject)
            require_sold(
                place.quotes.resources,
                {"": bids, WANTED: wanted, MOST: subject.cap, LEAST: subject.floor},
            )
        else:
            row = await permitted_vm_row(self._rights, caller, view.now, subject.vm, USE)
            place = bidder_place(view, row)
            require_sold(place.quotes.resources, {"": bids, WANTED: wanted})
        return quoted_vm(place, bids, wanted)


def require_sold(resources: Sequence[str], given: Mapping[str, Amounts]) -> None:
    """Raise InvalidRequestError if an amount is of a good that is not sold.

    `given` are amounts by the prefix of their names in texts.
    """
    others = [name for amounts in given.values() for name in amounts if name not in resources]
    if not others:
        return
    for good in dict.fromkeys([*(good for good in FURTHER if good not in resources), *others]):
        for prefix, amounts in given.items():
            if amounts.get(good) is not None:
                raise InvalidRequestError(
                    f"{prefix}{good}: {good} is not sold; sold: {', '.join(resources)}"
                )


@dataclass(frozen=True, slots=True)
class BidderPlace:
    """A VM, existing or planned, at the place where it bids."""

    quotes: Quotes
    place: QuotedPlace
    bid: Sequence[float]
    """The present or default bid by resource."""
    vm: int | None
    name: str | None
    host: str | None
    market: str | None
    period: int
    sharing: int | None = None
    """The number of VMs that share a spending rate; None if the market charges for shares."""

    def rate(self, bid: float) -> float | None:
        """Return the credits per core used for a period, with this bid for CPU."""
        return None if self.sharing is None else bid * self.sharing

    def quote(self, bids: Sequence[float]) -> tuple[Quote, ...]:
        """Return the share and cost of these bids by resource; if use is charged, the most."""
        quoted = self.quotes.quote(self.place, bids)
        rate = self.rate(bids[CPU])
        if rate is None:
            return quoted
        used = rate / UNITS_PER_CORE if self.place.bids else 0.0
        prices = [used if column == CPU else 0.0 for column in range(len(quoted))]
        return tuple(
            replace(quote, price=price, cost=price * quote.share)
            for quote, price in zip(quoted, prices, strict=True)
        )


def bidder_place(view: QuotedView, row: int) -> BidderPlace:
    """Return the place of the VM in this row. Raise InvalidRequestError if it is in no market."""
    now = view.now
    snapshot = now.snapshot
    vm, at = int(snapshot.vms.id[row]), int(now.host[row])
    market = int(snapshot.vms.market[row] if at == NO_HOST else snapshot.hosts.market[at])
    if snapshot.vms.market[row] == NO_MARKET or market == NO_MARKET:
        raise InvalidRequestError(f"VM {vm} belongs to no market, so it can't bid")
    quotes = view.quotes[market]
    place = quotes.place_of(row)
    if place is None:
        raise InvalidRequestError(
            f"VM {vm} is {now.states[row]} and has no resources, so it can't bid"
        )
    rate = now.rates.get(vm)
    sharing = 1 if rate is None else rate.nvm
    bid = snapshot.vms.bid[row].tolist()
    return _place(view, market, place, bid, sharing, vm, snapshot.vms.name[row])


def planned_place(view: QuotedView, planned: PlannedVm) -> BidderPlace:
    """Return the place of a planned VM. Raise InvalidRequestError."""
    names = [market.name for market in view.markets]
    chosen = one_of({"market": planned.market}, "market", names)
    row = 0 if chosen is None else names.index(chosen)
    quotes, rules = view.quotes[row], view.markets[row]
    floor, cap = [], []
    for column, name in enumerate(quotes.resources):
        most = checked_amount(f"{MOST}{name}", planned.cap.get(name), MAX_AMOUNT)
        least = checked_amount(f"{LEAST}{name}", planned.floor.get(name), MAX_AMOUNT) or 0.0
        largest = float(quotes.hosts.capacity[column :: len(quotes.resources)].max(initial=0.0))
        if rules.by_use and column != CPU:
            # This market divides only CPU: all other resources are fixed by the VM's template.
            largest = least = max(most or 0.0, least)
        cap.append(max(largest, least) if most is None else most)
        floor.append(least)
        if least > cap[-1]:
            raise InvalidRequestError(
                f"least_{name}: must be at most most_{name}, {most:g} (got {least:g})"
            )
    bid = [
        0.0 if rules.by_use and column != CPU else rules.default_bid.get(name, 0.0)
        for column, name in enumerate(quotes.resources)
    ]
    return _place(view, row, quotes.place_for(floor, cap), bid, 1, None, None)


def _place(
    view: QuotedView,
    market: int,
    place: QuotedPlace,
    bid: Sequence[float],
    sharing: int,
    vm: int | None,
    name: str | None,
) -> BidderPlace:
    hosts = view.now.snapshot.hosts
    return BidderPlace(
        quotes=view.quotes[market],
        place=place,
        bid=bid,
        vm=vm,
        name=name,
        host=None if place.host == NO_HOST else hosts.name[place.host],
        market=view.now.market_name(market),
        period=view.latest.period,
        sharing=sharing if view.by_use[market] else None,
    )


def quoted_vm(place: BidderPlace, bids: Amounts, wanted: Amounts) -> QuotedVm:
    """Return the quote for bids and wanted amounts.

    If no bid gets the wanted amount, the quote has no bid for it, and its share is the largest
    possible share.
    """
    names = place.quotes.resources
    asked = [checked_amount(name, bids.get(name), MAX_AMOUNT) for name in names]
    amounts = [checked_amount(f"{WANTED}{name}", wanted.get(name), MAX_AMOUNT) for name in names]
    for name, bid, amount in zip(names, asked, amounts, strict=True):
        if bid is not None and amount is not None:
            raise InvalidRequestError(f"{name} and want_{name}: only one of the two may be given")
    needed = place.quotes.bid_for(place.place, amounts)
    none = [
        amount is not None and (bid is None or bid > MAX_AMOUNT)
        for amount, bid in zip(amounts, needed, strict=True)
    ]
    offered = [
        MAX_AMOUNT
        if hopeless
        else (bid or 0.0)
        if amount is not None
        else held
        if at is None
        else at
        for hopeless, bid, amount, held, at in zip(
            none, needed, amounts, place.bid, asked, strict=True
        )
    ]
    rows = [
        QuotedResource(
            resource=quote.resource,
            wanted=amount,
            bid=None if hopeless else quote.bid,
            share=quote.share,
            most=most,
            price=None if hopeless else finite(quote.price),
            cost=None if hopeless else finite(quote.cost),
        )
        for quote, amount, hopeless, most in zip(
            place.quote(offered), amounts, none, place.place.cap, strict=True
        )
    ]
    costs = [row.cost for row in rows if row.cost is not None]
    return QuotedVm(
        vm=place.vm,
        name=place.name,
        host=place.host,
        market=place.market,
        period=place.period,
        rate=None if none[CPU] else place.rate(offered[CPU]),
        cost=sum(costs) if len(costs) == len(rows) else None,
        resources=rows,
    )
