"""Algorithm 3: how many VMs can be paid for at their greatest size, and what to bid for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from controllers.policies.vertical import Amounts


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
