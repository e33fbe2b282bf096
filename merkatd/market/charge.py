"""What a VM owes for a period: the price times what it was given on its host."""

import numpy as np

from merkatd.cluster.arrays import Floats


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
