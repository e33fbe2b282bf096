"""How far a floor holds: as far as the VM's bid pays for it.

A floor at the reserve price would be the cheapest way to get cores: a VM that bids nothing and
claims a whole host would keep it from VMs that bid. So a claim holds as far as the bid buys it at
the last price. Memory that a guest uses holds as far, and the rest of it for a time.

# Note [Claims that settle]

A claim that holds raises the price, and the price decides how much of a claim holds. At the price
of the market without any claims a VM is given what its bid buys, so claims up to that change
nothing, and that price stays. A claim of exactly that amount is different: on a host of 464 MiB a
VM bids 1 and claims 220, and a neighbour bids 9 for at most 256. The neighbour leaves 208, at a
price of 1 / 208. With a floor of 208 every price up to 9 / 256 would clear; at 9 / 256 only 28 of
the claim are paid for, and the next price is 1 / 208 again, and so on for ever. A claim therefore
holds for a millionth less than the bid buys (PART), and a period or two after a change the prices
stay.

# Note [Memory in use]

A guest can't give back at once what it uses. If use were a floor for ever, a VM could fill its
memory while it is alone and then bid nothing: 8 GiB would cost it the reserve price, 2 % of what
its neighbours pay. So a host's memory goes first to what is paid for and to what bids ask for.
VMs that use more than they pay for divide what is left of the host, which is all of their use
where no other VM asks for it. Where that is less than they have, they shrink towards it, a tenth
of what they had in a period (`for_now`). Example: a host of 16 GiB, a VM that uses 8 GiB and bids
nothing, two VMs that ask for 5 GiB each. 6 GiB are left, and it shrinks to 7.2, 6.5 and 6 GiB.
With a third such VM it shrinks on to the least that every VM keeps. Without competition it keeps
all, at the reserve price.

What it has for now follows from what it was given in the last period, and only a VM that ran then
and bids as much as then has it. Without that condition a VM could bid high in one period of ten,
or for its boot, or sleep for a period, and have the others for next to nothing.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster.arrays import Bools, Floats, Ints

PART = 1 - 1e-6
"""Of what a bid buys: the part that a claim can hold."""

_ROUNDING = 1e-6


def paid_floors(floors: Floats, bids: Floats, prices: Floats, reserve: Floats) -> Floats:
    """Return the part of each floor that its bid pays for, [vms, resources].

    `prices` and `reserve` are [vms, resources]: the price of a unit in the last period, and the
    least price of one. A resource without either is free, and a claim to it holds as a whole.
    """
    return np.minimum(floors, bought(bids, prices, reserve))


def bought(bids: Floats, prices: Floats, reserve: Floats) -> Floats:
    """Return the amounts that bids pay for, less a millionth, [vms, resources]."""
    asked = np.maximum(prices, reserve)
    with np.errstate(over="ignore"):
        return np.divide(bids * PART, asked, out=np.full_like(asked, np.inf), where=asked > 0)


class Kept(NamedTuple):
    """What VMs keep of the memory that they use."""

    amount: Floats
    """[vms]"""
    contended: Bools
    """[vms]: its host does not have all that its VMs ask for with their bids, or use."""


def kept_in_use(
    use: Floats, paid: Floats, for_now: Floats, wish: Floats, host: Ints, capacity: Floats
) -> Kept:
    """Return what each VM keeps because it uses it, at least what is paid for.

    `use`, `paid`, `for_now` and `wish` are [vms]: what it uses, what of a host it has paid for,
    what it keeps for this period whoever else bids, and what it asks for with its bid. `capacity`
    is [hosts]. See Note [Memory in use].
    """
    hosts = len(capacity)
    asked = np.maximum(wish, paid)
    beyond = np.maximum(use - asked, 0.0)
    spare = capacity - np.bincount(host, asked, hosts)
    wanted = np.bincount(host, beyond, hosts)
    enough = spare >= wanted - _ROUNDING
    part = np.divide(spare, wanted, out=np.zeros(hosts), where=(spare > 0) & (wanted > 0))
    # Hosts give whole units: rounded up, they would come to more than there is.
    left = np.where((spare >= 0)[host], np.floor(asked + beyond * part[host]), 0.0)
    amount = np.maximum(paid, np.minimum(use, np.maximum(left, for_now)))
    return Kept(np.where(enough[host], np.maximum(use, paid), amount), ~enough[host])
