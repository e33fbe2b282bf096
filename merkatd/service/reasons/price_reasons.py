"""How a price came about: capacity, floors, bids, the price rule, and the price with lower bids.

Every user may read it: it has sums over all VMs of a market, and no tenant's own numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from merkatd.base.quantities import finite
from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.market_view import MarketView, market_view
from merkatd.market.price import PriceRule, price, price_of_whole_bids
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import one_of
from merkatd.service.base.period_view import PeriodView, PeriodViews

LESS = 0.9
"""The part of each bid that the price with lower bids counts."""
_CLOSE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceReason:
    """How the price of a resource in a market came about; None for infinite values."""

    market: str
    resource: str
    period: int
    at_s: float
    price: float | None
    """Credits for a unit and a period."""
    reserve: float
    """The least price."""
    rule: str
    """The market's price rule."""
    strategy: str
    capacity: float
    """What the market's hosts have together."""
    floors: float
    """The sum of the floors of all VMs with a host."""
    wanted: float
    """What the VMs with a host could use together: the demand."""
    bids: float
    """The sum of their bids, in credits a period."""
    bidders: int
    """The number of VMs with a host that bid."""
    waiting: int
    """The number of VMs that wait for a host: their bids do not count yet."""
    price_with_less: float | None
    """The price if each bid were a tenth lower."""
    why: str
    """The reason for the price, as a sentence."""


class PriceReasonService:
    """The reasons for prices."""

    def __init__(self, scheduler: Scheduler, views: PeriodViews) -> None:
        self._scheduler = scheduler
        self._views = views

    async def explain(
        self, resource: str | None = None, market: str | None = None
    ) -> list[PriceReason]:
        """Return the reasons for the present prices, of one or all. Raise RequestError."""
        world = self._scheduler.world
        view = (await self._views.prepared()).now
        one_of({"market": market}, "market", list(view.snapshot.markets.name))
        one_of({"resource": resource}, "resource", list(view.snapshot.resources))
        reasons = await world.executor.run(partial(price_reasons, view, world.markets))
        return [
            reason
            for reason in reasons
            if resource in {None, reason.resource} and market in {None, reason.market}
        ]


def price_reasons(view: PeriodView, markets: Sequence[MarketRules]) -> list[PriceReason]:
    """Return the reasons for all prices; a pass over all VMs, for a thread."""
    rules = {market.name: market for market in markets}
    return [
        reason
        for row, name in enumerate(view.snapshot.markets.name)
        if name in rules
        for reason in _of_market(view, row, rules[name])
    ]


def _of_market(view: PeriodView, row: int, rules: MarketRules) -> list[PriceReason]:
    snapshot = view.snapshot
    market = market_view(snapshot, row)
    local = np.full(len(snapshot.hosts) + 1, NO_ROW)
    local[market.hosts] = np.arange(len(market.hosts))
    place = local[view.host[market.vms]]
    there = place != NO_HOST
    reserve = rules.pricing.reserve_prices(snapshot.resources)
    total = market.total
    less = _price(replace(market, bid=market.bid * LESS), place, rules, reserve)
    reasons = []
    for column, resource in enumerate(snapshot.resources):
        now = float(view.decision.prices[row, column])
        known = PriceReason(
            market=rules.name,
            resource=resource,
            period=snapshot.period,
            at_s=view.at_s,
            price=finite(now),
            reserve=float(reserve[column]),
            rule=str(rules.pricing.rule),
            strategy=rules.strategy,
            capacity=float(total[column]),
            floors=float(market.floor[there, column].sum()),
            wanted=float(market.size[there, column].sum()),
            bids=float(market.bid[there, column].sum()),
            bidders=int((market.bid[there, column] > 0).sum()),
            waiting=int((~there).sum()),
            price_with_less=finite(float(less[column])),
            why="",
        )
        reasons.append(replace(known, why=_why(known)))
    return reasons


def _price(market: MarketView, place: Ints, rules: MarketRules, reserve: Floats) -> Floats:
    """Return the prices by the market's rule, as a strategy that divides by bids computes them."""
    if rules.pricing.whole_bids:
        return price_of_whole_bids(market.bid[place != NO_HOST], market.total, reserve)
    return price(market.price_level(rules.pricing.rule, place), reserve)


def _why(reason: PriceReason) -> str:
    """Return the reason for a price in a sentence."""
    if reason.price is None:
        return "the floors of the VMs take the whole capacity, so no price clears the market"
    if reason.price <= reason.reserve * (1 + _CLOSE):
        if reason.wanted <= reason.capacity:
            return (
                "the hosts have more than the VMs can use, and the reserve price is the least price"
            )
        return "the bids buy less than the capacity at the reserve price, which is the least price"
    if reason.rule == PriceRule.CLEARING:
        return (
            "the VMs want more than the capacity; the bids that are not satisfied divide what the"
            " floors leave, and the price is what they pay for a unit"
        )
    return "the VMs want more than the capacity; the price is all usable bids over the capacity"
