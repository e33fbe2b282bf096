"""What a unit costs for a period (section 2.2.4), and what a VM owes.

Both rules ask what a unit costs the bids that set the level of the market as one host. They
differ in how floors count and in what a VM is charged (`charge.py`). A bid counts only as far as
its VM could use what the bid buys: a bid of 9,000 credits of a VM that can use one unit counts as
the price of one unit.

# Note [A price of usable bids]

The paper divides the sum of all bids b_j by the capacity C. A VM pays for what it is given, at
most its cap: with a high bid and a small cap it raises the price for every other VM and pays
next to nothing itself. So each bid counts as what its VM would pay for all it can use:

    P = (sum of min(b_j, P x cap_j)) / C

With P = 1 / level this is the sum of all shares: clip(b_j x level, 0, cap_j) adds up to C. The
price is therefore 1 / level, where the level is computed without floors (`market_view.py`).
Example: capacity 300, bids 12 12 12 30 30, caps 100: no VM reaches its cap, and the price is 96 /
300 = 0.32. With one more bid of 9,000 for at most 1 unit the price is 96 / 299. Where the VMs
together can't use the capacity there is no competition, and the price is the reserve price.
"""

import math
from enum import StrEnum

import numpy as np

from merkatd.cluster.columns import Floats


class PriceRule(StrEnum):
    """What a unit costs, and what a VM is charged."""

    PAPER = "paper"
    """The sum of all usable bids over the capacity. No VM is charged above its bid, or above its
    floor at this price where that is more."""
    CLEARING = "clearing"
    """What a unit costs the bids that set the level. No VM is charged above its bid, or above
    its floor at the reserve price where that is more."""


def price(level: Floats, reserve: Floats) -> Floats:
    """Credits per unit and period, by resource, at least the reserve price.

    `level` is what a credit buys in the market as one host. The price is infinite where floors
    alone use up the capacity: no bid decides there.
    """
    asked = np.divide(1.0, level, out=np.full_like(level, np.inf), where=level > 0)
    found: Floats = np.maximum(asked, reserve)
    return found


def bid_that_buys(amount: float, reserve: float) -> float:
    """Return the least bid that pays for the amount at the reserve price, rounded up."""
    bid = amount * reserve
    return bid if reserve == 0 or bid / reserve >= amount else math.nextafter(bid, math.inf)


def price_of_whole_bids(bids: Floats, capacity: Floats, reserve: Floats) -> Floats:
    """The paper's price to the letter, for its experiments: all bids over the capacity.

    `bids` is [vms, resources]; the others are [resources].
    """
    asked = np.divide(bids.sum(axis=0), capacity, out=np.zeros_like(capacity), where=capacity > 0)
    found: Floats = np.maximum(asked, reserve)
    return found


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
    """Credits owed by each VM, by resource.

    `bids`, `allocations`, `prices` and `floors` are [vms, resources], each VM with the prices of
    its market; `reserve` has the reserve prices. `elapsed_periods` is the time that really passed
    between two observations, in periods; no more than `most_periods` are charged for. A VM owes
    no more than it bid a period, or than its floor costs at the reserve price where that is more.
    Anybody's bid can raise the price of one period, so no floor costs that price. `above_bids` is
    for the paper's experiments: there a VM on a host that is less crowded than others owes more.
    """
    with np.errstate(invalid="ignore"):
        owed = np.where(allocations > 0, prices * allocations, 0.0)
        kept = np.minimum(floors, allocations)
        floor_costs = np.where(kept > 0, reserve * kept, 0.0)
    if not above_bids:
        owed = np.minimum(owed, np.maximum(bids, floor_costs))
    return owed * min(max(elapsed_periods, 0.0), most_periods)
