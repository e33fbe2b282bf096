"""Prices per unit and period (section 2.2.4), and charges of VMs.

Both rules compute the price from the bids that set the level of the market as one host. They differ
in how floors count and in the charges. A bid counts only as far as its VM can use what the bid
buys: a bid of 9,000 credits of a VM that can use one unit counts as the price of one unit.

# Note [A price of usable bids]

The paper divides the sum of all bids b_j by the capacity C. A VM pays for its allocation, at most
its cap: with a high bid and a small cap it raises the price for every other VM and pays next to
nothing itself. So each bid counts as what its VM would pay for all it can use:

    P = (sum of min(b_j, P x cap_j)) / C

With P = 1 / level this is the sum of all shares: clip(b_j x level, 0, cap_j) adds up to C. The
price is therefore 1 / level, where the level is computed without floors (`market_view.py`).
Example: capacity 300, bids 12 12 12 30 30, caps 100: no VM reaches its cap, and the price is 96 /
300 = 0.32. With an additional bid of 9,000 for at most 1 unit the price is 96 / 299. If the VMs
together can't use the capacity, they do not compete, and the price is the reserve price.
"""

import math
from enum import StrEnum

import numpy as np

from merkatd.cluster.columns import Floats


class PriceRule(StrEnum):
    """The rule for prices and charges."""

    PAPER = "paper"
    """The price is the sum of all usable bids over the capacity. A VM is charged at most its bid,
    or its floor at this price if that is more."""
    CLEARING = "clearing"
    """The price is what the bids that set the level pay per unit. A VM is charged at most its bid,
    or its floor at the reserve price if that is more."""


def price(level: Floats, reserve: Floats) -> Floats:
    """Return the price by resource, in credits per unit and period, at least the reserve price.

    `level` has the units that a credit buys in the market as one host. The price is infinite if
    floors alone use up the capacity: then bids decide nothing.
    """
    asked = np.divide(1.0, level, out=np.full_like(level, np.inf), where=level > 0)
    prices: Floats = np.maximum(asked, reserve)
    return prices


def bid_that_buys(amount: float, reserve: float) -> float:
    """Return the least bid that pays for the amount at the reserve price, rounded up."""
    bid = amount * reserve
    return bid if reserve == 0 or bid / reserve >= amount else math.nextafter(bid, math.inf)


def price_of_whole_bids(bids: Floats, capacity: Floats, reserve: Floats) -> Floats:
    """Return the paper's price to the letter, for its experiments: all bids over the capacity.

    `bids` is [vms, resources]; the others are [resources].
    """
    asked = np.divide(bids.sum(axis=0), capacity, out=np.zeros_like(capacity), where=capacity > 0)
    prices: Floats = np.maximum(asked, reserve)
    return prices


def charges(
    bids: Floats,
    allocations: Floats,
    prices: Floats,
    elapsed_periods: float,
    most_periods: float = 2.0,
    *,
    floors: Floats | float = 0.0,
    reserve: Floats | float = 0.0,
    above_bids: bool = False,
) -> Floats:
    """Return the credits that each VM owes, by resource.

    `bids`, `allocations`, `prices` and `floors` are [vms, resources], each VM with the prices of
    its market; `reserve` has the reserve prices. `elapsed_periods` is the real time between two
    observations, in periods; at most `most_periods` are charged. A VM owes at most its bid per
    period, or its floor at the reserve price if that is more. Floors do not cost the period's
    price, as any tenant's bid can raise it. `above_bids` is for the paper's experiments: there a
    VM on a less crowded host owes more.
    """
    with np.errstate(invalid="ignore"):
        owed = np.where(allocations > 0, prices * allocations, 0.0)
        kept = np.minimum(floors, allocations)
        floor_costs = np.where(kept > 0, reserve * kept, 0.0)
    if not above_bids:
        owed = np.minimum(owed, np.maximum(bids, floor_costs))
    return owed * min(max(elapsed_periods, 0.0), most_periods)
