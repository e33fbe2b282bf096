"""Horizontal scaling (Algorithms 3 and 4): the number of VMs that can be paid for.

It is careful in two ways (section 3.2.2). It never requests many VMs at once, and it requests none
right after it had to release VMs that became too expensive.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from merkatd.policies.vertical import Amounts, Performance


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The market from the view of one bidder."""

    others: Amounts
    """The price of a unit without the bidder's own bids (`others_price`)."""
    capacity: Amounts


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of VMs, and the bids for all of them together, by resource."""

    vms: int
    bid: Amounts


def others_price(price: float, own: float, capacity: float, reserve: float = 0.0) -> float:
    """Return the price without the own bids: with them, the bids would drive themselves up."""
    return max(reserve, price - own / capacity) if capacity > 0 else inf


def bids_for(vms: int, most: Sequence[float], prices: Prices) -> Amounts:
    """Return the bids that give `vms` VMs their full size (line 5, Eq. 1); infinite if none can."""
    terms = zip(prices.others, most, prices.capacity, strict=True)
    return tuple(_bid(vms, price, size, capacity) for price, size, capacity in terms)


def _bid(vms: int, price: float, size: float, capacity: float) -> float:
    wanted = size * vms
    if wanted == 0:
        return 0.0
    left = 1.0 - wanted / capacity if capacity > 0 else 0.0
    return price * wanted / left if left > 0 else inf


def _cost(vms: int, terms: Sequence[tuple[float, float, float]]) -> float:
    """Return the sum of the bids; a plain loop, as a search calls it about ten times."""
    cost = 0.0
    for price, size, capacity in terms:
        cost += _bid(vms, price, size, capacity)
    return cost


def upper_bound(vms_max: int, bid_max: float, most: Sequence[float], prices: Prices) -> Bound:
    """Return the most VMs, up to `vms_max`, whose bids together stay below `bid_max`.

    The cost rises with the number of VMs, so a binary search finds it. The result may be 0 VMs.
    """
    terms = tuple(zip(prices.others, most, prices.capacity, strict=True))
    fits, fails = 0, vms_max + 1
    while fails - fits > 1:
        tried = (fits + fails) // 2
        if _cost(tried, terms) < bid_max:
            fits = tried
        else:
            fails = tried
    return Bound(fits, bids_for(fits, most, prices))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The VMs of a virtual cluster."""

    vms: int
    least: int = 0
    most: int
    size: Amounts
    """alloc_max of one VM, by resource."""
    growth: int = 1
    """The most VMs requested at once."""
    shrinkage: int | None = None
    """The most VMs without work that are released at once; None for any number."""
    waiting: int = 0
    """Periods left to wait after a forced release before the next request."""


@dataclass(frozen=True, slots=True)
class ScalingDecision:
    """The decided number of VMs, and the bid for each."""

    vms: int
    request: int
    release: int
    forced: int
    """The number of released VMs that can no longer be paid for."""
    bid: Amounts
    """The bid of one VM, by resource. Leaving VMs share the total bid for the VMs that stay."""
    waiting: int
    """Periods left to wait, for the next call."""


def scale(
    fleet: Fleet,
    performance: Performance,
    bid_max: float,
    prices: Prices,
    *,
    wanted: int | None = None,
    patience: int = 1,
) -> ScalingDecision:
    """Return the next size and bid of a fleet.

    `wanted` is the number of VMs that have work, None if unknown. `patience` is the number of
    periods to wait after a forced release.
    """
    target = _target(fleet, performance, wanted)
    bound = upper_bound(max(target, fleet.vms), bid_max, fleet.size, prices)
    allowed = max(min(target, bound.vms), fleet.least)
    forced = max(0, fleet.vms - max(bound.vms, fleet.least))
    waiting = patience if forced else max(0, fleet.waiting - 1)
    return ScalingDecision(
        vms=allowed,
        request=max(0, allowed - fleet.vms),
        release=max(0, fleet.vms - allowed),
        forced=min(forced, max(0, fleet.vms - allowed)),
        bid=_bid_of_one(fleet, allowed, bid_max, prices, bound),
        waiting=waiting,
    )


def _target(fleet: Fleet, performance: Performance, wanted: int | None) -> int:
    """Return the number of VMs that the performance asks for, whatever their cost."""
    if performance.slow:
        step = 1 if wanted is None else max(0, wanted - fleet.vms)
        grown = fleet.vms + (0 if fleet.waiting else min(step, fleet.growth))
        return min(grown, max(fleet.most, fleet.least))
    if performance.fast:
        fewer = fleet.vms - 1 if wanted is None else min(wanted, fleet.vms)
        kept = 0 if fleet.shrinkage is None else fleet.vms - fleet.shrinkage
        return max(fewer, kept, fleet.least)
    return fleet.vms


def _bid_of_one(
    fleet: Fleet, allowed: int, bid_max: float, prices: Prices, bound: Bound
) -> Amounts:
    """Return one VM's bid by Eq. 1; the budget is the limit if even the least fleet costs more."""
    size = fleet.size
    if allowed == 0:
        return (0.0,) * len(size)
    bidding = max(allowed, fleet.vms)
    bids = bound.bid if allowed == bound.vms else bids_for(allowed, size, prices)
    if sum(bids) <= bid_max:
        return tuple(part / bidding for part in bids)
    return tuple(part / bidding for part in dear_bids(size, prices, bid_max))


def dear_bids(size: Amounts, prices: Prices, bid_max: float) -> Amounts:
    """Return a limit as bids in proportion to the costs of a full size that it can't pay."""
    parts = [price * amount for price, amount in zip(prices.others, size, strict=True)]
    known = sum(parts)
    if not 0 < known < inf:
        return (bid_max / len(size),) * len(size)
    return tuple(bid_max * part / known for part in parts)
