"""Algorithm 4: one VM more while the application is slow, one less while it is fast.

Careful in two ways (section 3.2.2): it never asks for many VMs at once, and for none right
after having had to release some because they became too dear.
"""

from dataclasses import dataclass

from controllers.policies.bound import Bound, Prices, bids_for, upper_bound
from controllers.policies.vertical import Amounts, Performance


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
