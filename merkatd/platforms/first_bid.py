"""The bid of a new VM: what would buy it all it can use, as prices are and lately were."""

from collections.abc import Mapping, Sequence
from math import fsum, isfinite

from merkatd.platforms.ports import Amounts


def reference_price(present: float, past: Sequence[float]) -> float:
    """The higher of the present price and the mean of those before: a moment's low is no offer."""
    known = [price for price in past if isfinite(price)]
    mean = fsum(known) / len(known) if known else 0.0
    return max(present if isfinite(present) else 0.0, mean)


def first_bid(prices: Amounts, wanted: Amounts, default: Amounts, most: float) -> dict[str, float]:
    """Credits per period, by resource, `most` in all.

    What nobody has paid for yet is bid for as for any VM of which nobody spoke.
    """
    bid: Mapping[str, float] = {
        name: prices[name] * amount if prices.get(name, 0.0) > 0 else default.get(name, 0.0)
        for name, amount in wanted.items()
    }
    whole = fsum(bid.values())
    part = min(1.0, most / whole) if whole > 0 else 0.0
    return {name: amount * part for name, amount in bid.items()}
