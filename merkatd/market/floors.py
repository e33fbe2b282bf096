"""How far a claimed floor holds: as far as the VM's bid pays for it.

A floor at the reserve price would be the cheapest way to get cores: a VM that bids nothing and
claims a whole host would keep it from VMs that bid. So a claim holds as far as the bid buys it at
the last price. Where the price is the reserve price there is enough for all, and a claim holds as a
whole. Memory that a guest uses is not for this rule: it can't live with less.
"""

import numpy as np

from merkatd.cluster.arrays import Floats


def paid_floors(floors: Floats, bids: Floats, prices: Floats, reserve: Floats) -> Floats:
    """Return the part of each floor that its bid pays for, [vms, resources].

    `prices` and `reserve` are [vms, resources]: what a unit cost in the last period, and the least
    that it can cost.
    """
    scarce = prices > reserve
    with np.errstate(over="ignore"):
        bought = np.divide(bids, prices, out=np.full_like(floors, np.inf), where=scarce)
    return np.minimum(floors, bought)
