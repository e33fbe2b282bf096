"""Paid floors: the part of a VM's floor that its bid pays for.

If floors cost the reserve price, they would be the cheapest way to get cores: a VM that bids
nothing and claims a whole host would keep it from VMs that bid. So a claim counts only as far as
the bid pays for it. The same is true of memory that a guest uses; the rest of it counts for a time.

# Note [Claims that settle]

A valid claim raises the price, so the price that limits claims matters. It is the price of this
period's bids without any claims: the price of the market as one host, or of the VM's own host if
that is higher. At that price a VM gets what its bid buys, claims up to that amount change nothing,
and all claims together fit.

The market's price alone would be too low: a bid of 1.7 kept a whole host from four VMs that bid 80
together and could not leave it, while other hosts were idle. The price of the last period would be
wrong too. A VM that bids in every second period would have its claim limited by a price without its
own bid. It would get four fifths of a host for half of their price. And a short high bid of one VM
would end the claims of all others after it is gone.

Example: a host of 800. Four VMs bid 20 each, and a fifth bids 79 and claims 800. At the price 159 /
800 its bid buys 397, and it can claim that. At the price without its bid, 80 / 800, that is 790.

A claim counts for a millionth less than the bid buys (PART). Otherwise a claim of exactly what a
neighbour leaves would let every price up to the neighbour's clear.

# Note [Memory in use]

A guest can't give back memory in use at once. If use were a permanent floor, a VM could fill its
memory while it is alone and then bid nothing: 8 GiB would cost the reserve price, 2 % of what its
neighbours pay. So a host's memory goes first to paid floors and to the demand of bids. VMs that use
more than they pay for divide the rest of the host. That is all of their use if no other VM demands
it. If it is less than they have, they shrink towards it, by a tenth in an interval (`for_now`).

Example: a host of 16 GiB, a VM that uses 8 GiB and bids nothing, two VMs that demand 5 GiB each.
6 GiB are left, and the first VM shrinks to 7.2, 6.5 and 6 GiB. With a third such VM it shrinks on
to the least memory of every VM. Without competition it keeps all, at the reserve price.

`for_now` follows from the allocation of the last period. Only a VM that ran then and bids at least
as much as then gets it. Without that condition a VM could bid high in one period of ten, or only
for its boot, or sleep for a period, and have the other periods for next to nothing.
"""

from typing import NamedTuple

import numpy as np

from merkatd.cluster.columns import Bools, Floats, Ints
from merkatd.market.share import share

PART = 1 - 1e-6
"""Part of a bid's purchase that a claim can reach."""

_ROUNDING = 1e-6
_HALVINGS = 50
"""Number of halvings after which a price is exact to at least twelve digits."""


def paid_floors(floors: Floats, bids: Floats, prices: Floats, reserve: Floats) -> Floats:
    """Return the part of each floor that its bid pays for, [vms, resources].

    `prices` and `reserve` are [vms, resources]: the price of a unit without any claims, and its
    least price. A resource without either is free, and a claim to it counts in full.
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
    """Return [rows]: the bids with which the VMs in these rows pay for their amounts.

    `bids` and `caps` are [vms], of one resource. Without claims, the other VMs use the rest at the
    price P that solves P x (capacity - amount) = sum of min(bid, P x cap). P is found by halving,
    for all rows at once. The bid is infinite if the market has less than the amount.
    """
    full = np.divide(bids, caps, out=np.zeros_like(bids), where=caps > 0)
    order = np.argsort(full, kind="stable")
    limit = full[order]
    spent = np.append(0.0, np.cumsum(bids[order]))
    uses = np.append(np.cumsum(caps[order][::-1])[::-1], 0.0)

    def others(asked: Floats) -> Floats:
        at = np.searchsorted(limit, asked, side="right")
        own = np.minimum(bids[rows], asked * caps[rows])
        spent_by_others: Floats = spent[at] + asked * uses[at] - own
        return spent_by_others

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
    """Return [rows]: the bids with which the VMs in these rows pay for amounts on their hosts.

    As `bids_that_buy`, but only with the VMs on the same host: `host` is [vms], `capacity` is
    [hosts]. The price at which the other VMs use the rest is 1 / level of their shares.
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
    """The memory in use that VMs keep."""

    amount: Floats
    """[vms]: kept memory."""
    contended: Bools
    """[vms]: whether the host has less than its VMs' bids demand or its VMs use."""


def kept_in_use(
    use: Floats, paid: Floats, for_now: Floats, wish: Floats, host: Ints, capacity: Floats
) -> KeptMemory:
    """Return the memory that each VM keeps because it uses it, at least the paid amount.

    `use`, `paid`, `for_now` and `wish` are [vms]: the memory in use, the paid amount, the amount
    that the VM keeps in this period at any bids, and the demand of its bid. `capacity` is [hosts].
    See Note [Memory in use].
    """
    hosts = len(capacity)
    asked = np.maximum(wish, paid)
    beyond = np.maximum(use - asked, 0.0)
    spare = capacity - np.bincount(host, asked, hosts)
    wanted = np.bincount(host, beyond, hosts)
    enough = spare >= wanted - _ROUNDING
    part = np.divide(spare, wanted, out=np.zeros(hosts), where=(spare > 0) & (wanted > 0))
    # Hosts allocate whole units: rounded up, the sum would exceed the capacity.
    left = np.where((spare >= 0)[host], np.floor(asked + beyond * part[host]), 0.0)
    amount = np.maximum(paid, np.minimum(use, np.maximum(left, for_now)))
    return KeptMemory(np.where(enough[host], np.maximum(use, paid), amount), ~enough[host])
