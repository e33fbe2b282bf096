"""The allocation error (Eq. 2) and the shortfall, of VMs and of whole markets.

The first allocation is a VM's share if the whole market were one host. The second is its share on
its host. The error counts surplus and lack; the shortfall counts only the lack, weighed by the bid.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.market.market_view import market_view


def errors(first: Floats, on_host: Floats) -> Floats:
    """Return Eq. 2 for each VM and resource: |first - on_host| / first, 0 if `first` is 0."""
    return np.divide(np.abs(first - on_host), first, out=np.zeros_like(first), where=first > 0)


def shortfalls(first: Floats, on_host: Floats) -> Floats:
    """Return, by VM, the missing part of its first allocation, the largest over the resources."""
    lack = np.maximum(first - on_host, 0.0)
    part = np.divide(lack, first, out=np.zeros_like(first), where=first > 0)
    largest: Floats = part.max(axis=1, initial=0.0)
    return largest


def weighted_shortfall(bids: Floats, first: Floats, on_host: Floats) -> float:
    """Return the sum over all VMs of total bid times shortfall."""
    return float(np.dot(bids.sum(axis=1), shortfalls(first, on_host)))


@dataclass(frozen=True, slots=True, eq=False)
class Assessment:
    """The shares and errors of all VMs under a given placement."""

    first: Floats
    """[vms, resources]: shares if each market were one host."""
    shares: Floats
    """[vms, resources]: shares on the VM's host."""
    errors: Floats
    """[vms]: Eq. 2, the largest over the resources."""
    shortfall: Floats
    """[markets]: the sum of bid x shortfall."""
    largest_error: Floats
    """[markets]: the largest error of a VM."""


def assess_placement(snapshot: Snapshot, host: Ints) -> Assessment:
    """Return the shares and errors with each VM on the host in row `host` (-1: no host)."""
    first_shares = np.zeros_like(snapshot.vms.bid)
    shares = np.zeros_like(snapshot.vms.bid)
    largest_of_vm = np.zeros(len(snapshot.vms))
    shortfall = np.zeros(len(snapshot.markets))
    largest = np.zeros(len(snapshot.markets))
    for market in range(len(snapshot.markets)):
        view = market_view(snapshot, market)
        row_in_market = np.full(len(snapshot.hosts) + 1, NO_ROW)
        row_in_market[view.hosts] = np.arange(len(view.hosts))
        place = row_in_market[host[view.vms]]
        first_shares[view.vms] = view.first(place != NO_HOST).allocation
        shares[view.vms] = view.on_hosts(place).allocation
        shortfall[market] = weighted_shortfall(view.bid, first_shares[view.vms], shares[view.vms])
        largest_of_vm[view.vms] = errors(first_shares[view.vms], shares[view.vms]).max(
            axis=1, initial=0.0
        )
        largest[market] = largest_of_vm[view.vms].max(initial=0.0)
    return Assessment(first_shares, shares, largest_of_vm, shortfall, largest)
