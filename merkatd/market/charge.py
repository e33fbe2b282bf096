"""What a VM owes for a period: the price times what it was given on its host."""

import numpy as np

from merkatd.cluster.arrays import Floats
from merkatd.market.price import PriceRule

MOST_PERIODS = 2.0
"""However long the time between two observations, no more periods than these are charged."""


def charges(
    rule: PriceRule, bids: Floats, allocations: Floats, prices: Floats, elapsed_periods: float
) -> Floats:
    """Credits owed by each VM, by resource.

    `bids`, `allocations` and `prices` are [vms, resources], each VM with the prices of its
    market; `elapsed_periods` is the time that really passed, in periods. Under the clearing
    rule no VM owes more than it bid.
    """
    with np.errstate(invalid="ignore"):
        owed = np.where(allocations > 0, prices * allocations, 0.0)
    if rule is PriceRule.CLEARING:
        owed = np.minimum(owed, bids)
    return owed * min(max(elapsed_periods, 0.0), MOST_PERIODS)
