"""Algorithms 3 and 4: how many VMs can be paid for, one more or one less; also with Algorithm 2.

Careful in two ways (section 3.2.2): it never asks for many VMs at once, and for none right
after having had to release some because they became too dear.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from merkatd.policies.vertical import Amounts, Performance


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The market, seen by one who bids in it."""

    others: Amounts
    """What the others bid for a unit (`others_price`)."""
    capacity: Amounts


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of VMs, and the bids for all of them together by resource."""

    vms: int
    bid: Amounts


def others_price(price: float, own: float, capacity: float, reserve: float = 0.0) -> float:
    """The price without one's own bids, which would chase themselves upward."""
    return max(reserve, price - own / capacity) if capacity > 0 else inf


def bids_for(vms: int, most: Sequence[float], prices: Prices) -> Amounts:
    """Line 5: what gets so many VMs their greatest size, from Eq. 1; infinite where nothing can."""
    terms = zip(prices.others, most, prices.capacity, strict=True)
    return tuple(_bid(vms, price, size, capacity) for price, size, capacity in terms)


def _bid(vms: int, price: float, size: float, capacity: float) -> float:
    wanted = size * vms
    if wanted == 0:
        return 0.0
    left = 1.0 - wanted / capacity if capacity > 0 else 0.0
    return price * wanted / left if left > 0 else inf


def _cost(vms: int, terms: Sequence[tuple[float, float, float]]) -> float:
    """What these VMs bid together: a loop, since a search asks for it ten times."""
    whole = 0.0
    for price, size, capacity in terms:
        whole += _bid(vms, price, size, capacity)
    return whole


def upper_bound(vms_max: int, bid_max: float, most: Sequence[float], prices: Prices) -> Bound:
    """The most VMs, up to `vms_max`, whose bids together stay below `bid_max`; 0 if not even one.

    What they cost rises with their number, so halving finds it.
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
    """The most VMs that are asked for at once."""
    waiting: int = 0
    """Periods still to wait after a forced release before any is asked for."""


@dataclass(frozen=True, slots=True)
class Scaled:
    """How many VMs there are to be, and what to bid for each."""

    vms: int
    request: int
    release: int
    forced: int
    """How many of those released could not be paid for any more."""
    bid: Amounts
    """Of one VM, by resource: those that are to go share what is bid for those that stay."""
    waiting: int
    """For the next time."""


def scale(
    fleet: Fleet,
    performance: Performance,
    bid_max: float,
    prices: Prices,
    *,
    wanted: int | None = None,
    patience: int = 1,
) -> Scaled:
    """One step. `wanted` is how many VMs there is work for, where the controller knows."""
    target = _target(fleet, performance, wanted)
    bound = upper_bound(max(target, fleet.vms), bid_max, fleet.size, prices)
    allowed = max(min(target, bound.vms), fleet.least)
    forced = max(0, fleet.vms - max(bound.vms, fleet.least))
    waiting = patience if forced else max(0, fleet.waiting - 1)
    return Scaled(
        vms=allowed,
        request=max(0, allowed - fleet.vms),
        release=max(0, fleet.vms - allowed),
        forced=min(forced, max(0, fleet.vms - allowed)),
        bid=_bid_of_one(fleet, allowed, bid_max, prices, bound),
        waiting=waiting,
    )


def _target(fleet: Fleet, performance: Performance, wanted: int | None) -> int:
    """How many there would be if money were no object."""
    if performance.slow:
        step = 1 if wanted is None else max(0, wanted - fleet.vms)
        grown = fleet.vms + (0 if fleet.waiting else min(step, fleet.growth))
        return min(grown, max(fleet.most, fleet.least))
    if performance.fast:
        return max(fleet.vms - 1 if wanted is None else min(wanted, fleet.vms), fleet.least)
    return fleet.vms


def _bid_of_one(
    fleet: Fleet, allowed: int, bid_max: float, prices: Prices, bound: Bound
) -> Amounts:
    """What Eq. 1 asks for; no more than the budget where the least number is already too dear."""
    size = fleet.size
    if allowed == 0:
        return (0.0,) * len(size)
    bidding = max(allowed, fleet.vms)
    whole = bound.bid if allowed == bound.vms else bids_for(allowed, size, prices)
    if sum(whole) <= bid_max:
        return tuple(part / bidding for part in whole)
    parts = [price * one for price, one in zip(prices.others, size, strict=True)]
    known = sum(parts)
    if known == 0:
        return (bid_max / len(size) / bidding,) * len(size)
    return tuple(bid_max * part / known / bidding for part in parts)
