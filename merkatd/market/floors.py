"""How far a floor holds: as far as the VM's bid pays for it.

A floor at the reserve price would be the cheapest way to get cores: a VM that bids nothing and
claims a whole host would keep it from VMs that bid. So a claim holds as far as the bid buys it.
Memory that a guest uses holds as far, and the rest of it for a time.

# Note [Claims that settle]

A claim that holds raises the price, so it matters at which price a claim is judged. It is that of
this period's bids if no VM claims anything: the price of the market as one host, or that of the
VM's own host where that is higher. At that price a VM is given what its bid buys, claims up to that
change nothing, and all claims together fit.

The market's price alone would be too low: a bid of 1.7 kept a whole host from four VMs that bid 80
together and could not leave it, while other hosts were idle. The price of the last period would be
another one: a VM that bids in every second period has its claim judged by the price of a market
without its bid, and four fifths of a host for half of their price. And what one VM bid for a moment
would end the claims of all others once it is gone.

An example: a host of 800, four VMs bid 20 each, and a fifth bids 79 and claims 800. At 159 / 800
its bid buys 397, and that is what it can claim. At the price without it, 80 / 800, it would be 790.

A claim holds for a millionth less than the bid buys (PART). A claim of exactly what a neighbour
leaves would otherwise let every price up to the neighbour's clear.

# Note [Memory in use]

A guest can't give back at once what it uses. If use were a floor for ever, a VM could fill its
memory while it is alone and then bid nothing: 8 GiB would cost it the reserve price, 2 % of what
its neighbours pay. So a host's memory goes first to what is paid for and to what bids ask for.
VMs that use more than they pay for divide what is left of the host, which is all of their use
where no other VM asks for it. Where that is less than they have, they shrink towards it, by a tenth
in an interval (`for_now`). Example: a host of 16 GiB, a VM that uses 8 GiB and bids
nothing, two VMs that ask for 5 GiB each. 6 GiB are left, and it shrinks to 7.2, 6.5 and 6 GiB.
With a third such VM it shrinks on to the least that every VM keeps. Without competition it keeps
all, at the reserve price.

What it has for now follows from what it was given in the last period, and only a VM that ran then
and bids as much as then has it. Without that condition a VM could bid high in one period of ten,
or for its boot, or sleep for a period, and have the others for next to nothing.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster.columns import Bools, Floats, Ints
from merkatd.market.share import share

PART = 1 - 1e-6
"""Of what a bid buys: the part that a claim can hold."""

_ROUNDING = 1e-6
_HALVINGS = 50
"""After so many a price is exact to twelve digits or more."""


def paid_floors(floors: Floats, bids: Floats, prices: Floats, reserve: Floats) -> Floats:
    """Return the part of each floor that its bid pays for, [vms, resources].

    `prices` and `reserve` are [vms, resources]: the price of a unit without any claims, and the
    least price of one. A resource without either is free, and a claim to it holds as a whole.
    """
    return np.minimum(floors, bought(bids, prices, reserve))


def bought(bids: Floats, prices: Floats, reserve: Floats) -> Floats:
    """Return the amounts that bids pay for, less a millionth, [vms, resources]."""
    asked = np.maximum(prices, reserve)
    with np.errstate(over="ignore"):
        return np.divide(bids * PART, asked, out=np.full_like(asked, np.inf), where=asked > 0)


def bids_that_buy(
    rows: Ints, amounts: Floats, bids: Floats, caps: Floats, capacity: float, reserve: float
) -> Floats:
    """Return the bids with which the VMs in these rows pay for so much each, [rows].

    `bids` and `caps` are [vms], of one resource. If no VM claims anything, the price P at which the
    others use what is left is the root of P x (capacity - amount) = sum of min(bid, P x cap). It is
    found by halving, for all rows at once; infinite where the market has not so much.
    """
    full = np.divide(bids, caps, out=np.zeros_like(bids), where=caps > 0)
    order = np.argsort(full, kind="stable")
    limit = full[order]
    spent = np.append(0.0, np.cumsum(bids[order]))
    uses = np.append(np.cumsum(caps[order][::-1])[::-1], 0.0)

    def others(asked: Floats) -> Floats:
        at = np.searchsorted(limit, asked, side="right")
        own = np.minimum(bids[rows], asked * caps[rows])
        found: Floats = spent[at] + asked * uses[at] - own
        return found

    left = capacity - amounts
    low = np.full(len(rows), reserve)
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.maximum(low, np.where(left > 0, (spent[-1] - bids[rows]) / left, np.inf))
    sure = np.isfinite(high)
    high = np.where(sure, high, low)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = middle * left >= others(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(sure, high * amounts / PART, np.inf)


def bids_that_buy_there(
    rows: Ints,
    amounts: Floats,
    bids: Floats,
    caps: Floats,
    host: Ints,
    capacity: Floats,
    reserve: float,
) -> Floats:
    """Return the bids with which the VMs in these rows pay for so much each on their hosts, [rows].

    As `bids_that_buy`, but each VM beside those on its own host: `host` is [vms], `capacity`
    [hosts]. The price at which the others use what is left is one over the level of their share.
    """
    order = np.argsort(host, kind="stable")
    first = np.searchsorted(host[order], host[rows], side="left")
    count = np.searchsorted(host[order], host[rows], side="right") - first
    pool = np.repeat(np.arange(len(rows)), count)
    nth = np.arange(len(pool)) - np.repeat(np.cumsum(count) - count, count)
    other = order[np.repeat(first, count) + nth]
    apart = other != rows[pool]
    other, pool = other[apart], pool[apart]
    left = np.maximum(capacity[host[rows]] - amounts, 0.0)
    level = share(bids[other], np.zeros(len(other)), caps[other], pool, left).level
    with np.errstate(divide="ignore"):
        asked = np.maximum(np.divide(1.0, level), reserve)
    return np.where(left > 0, asked * amounts / PART, np.inf)


class KeptMemory(NamedTuple):
    """What VMs keep of the memory that they use."""

    amount: Floats
    """[vms]"""
    contended: Bools
    """[vms]: its host does not have all that its VMs ask for with their bids, or use."""


def kept_in_use(
    use: Floats, paid: Floats, for_now: Floats, wish: Floats, host: Ints, capacity: Floats
) -> KeptMemory:
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
    return KeptMemory(np.where(enough[host], np.maximum(use, paid), amount), ~enough[host])
