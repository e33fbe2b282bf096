"""How well a placement serves each market: shares, errors and shortfall, to be shown."""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.market.error import errors, weighted_shortfall
from merkatd.market.view import NOWHERE, view_of


@dataclass(frozen=True, slots=True, eq=False)
class Assessment:
    """What everybody gets while the VMs are where they are said to be."""

    first: Floats
    """[vms, resources]: as if each market were one host."""
    shares: Floats
    """[vms, resources]: on the VM's host."""
    errors: Floats
    """[vms]: Eq. 2, the larger over the resources."""
    shortfall: Floats
    """[markets]: the sum of bid x shortfall."""
    largest_error: Floats
    """[markets]"""


def assess(snapshot: Snapshot, host: Ints) -> Assessment:
    """The outcome with each VM on the host in this row, -1 where it has none."""
    first = np.zeros_like(snapshot.vms.bid)
    shares = np.zeros_like(snapshot.vms.bid)
    found = np.zeros(len(snapshot.vms))
    shortfall = np.zeros(len(snapshot.markets))
    largest = np.zeros(len(snapshot.markets))
    for market in range(len(snapshot.markets)):
        view = view_of(snapshot, market)
        local = np.full(len(snapshot.hosts) + 1, NOWHERE)
        local[view.hosts] = np.arange(len(view.hosts))
        place = local[host[view.vms]]
        first[view.vms] = view.first(place != NOWHERE).allocation
        shares[view.vms] = view.on_hosts(place).allocation
        shortfall[market] = weighted_shortfall(view.bid, first[view.vms], shares[view.vms])
        found[view.vms] = errors(first[view.vms], shares[view.vms]).max(axis=1, initial=0.0)
        largest[market] = found[view.vms].max(initial=0.0)
    return Assessment(first, shares, found, shortfall, largest)
