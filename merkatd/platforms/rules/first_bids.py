"""The first bids of a platform's new VMs."""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite

from merkatd.protocol.platform_messages import Amounts


def reference_price(present: float, past: Sequence[float]) -> float:
    """Return the higher of the present price and the past mean, as a low may last a moment only."""
    known = [price for price in past if isfinite(price)]
    mean = fsum(known) / len(known) if known else 0.0
    return max(present if isfinite(present) else 0.0, mean)


def first_bid(prices: Amounts, wanted: Amounts, default: Amounts, most: float) -> dict[str, float]:
    """Return a VM's first bid in credits per period, by resource, at most `most` in all.

    A resource without a price gets the default bid, like any VM without a bid of its own.
    """
    bid: Mapping[str, float] = {
        name: prices[name] * amount if prices.get(name, 0.0) > 0 else default.get(name, 0.0)
        for name, amount in wanted.items()
    }
    total = fsum(bid.values())
    part = min(1.0, most / total) if total > 0 else 0.0
    return {name: amount * part for name, amount in bid.items()}
