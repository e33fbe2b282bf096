"""How far a claimed floor holds: as far as the VM's bid pays for it.

A floor at the reserve price would be the cheapest way to get cores: a VM that bids nothing and
claims a whole host would keep it from VMs that bid. So a claim holds as far as the bid buys it at
the last price. Memory that a guest uses is not for this rule: it can't live with less.

# Note [Claims that settle]

A claim that holds raises the price, and the price decides how much of a claim holds. At the price
of the market without any claims a VM is given what its bid buys, so claims up to that change
nothing, and that price stays. A claim of exactly that amount is different: on a host of 464 MiB a
VM bids 1 and claims 220, and a neighbour bids 9 for at most 256. The neighbour leaves 208, at a
price of 1 / 208. With a floor of 208 every price up to 9 / 256 would clear; at 9 / 256 only 28 of
the claim are paid for, and the next price is 1 / 208 again, and so on for ever. A claim therefore
holds for a millionth less than the bid buys (PART), and a period or two after a change the prices
stay.
"""

import numpy as np

from merkatd.cluster.arrays import Floats

PART = 1 - 1e-6
"""Of what a bid buys: the part that a claim can hold."""


def paid_floors(floors: Floats, bids: Floats, prices: Floats, reserve: Floats) -> Floats:
    """Return the part of each floor that its bid pays for, [vms, resources].

    `prices` and `reserve` are [vms, resources]: the price of a unit in the last period, and the
    least price of one. A resource without either is free, and a claim to it holds as a whole.
    """
    asked = np.maximum(prices, reserve)
    with np.errstate(over="ignore"):
        bought = np.divide(bids * PART, asked, out=np.full_like(floors, np.inf), where=asked > 0)
    return np.minimum(floors, bought)
