"""The limit orders that would run if no VM claimed anything, as bids on their hosts.

# Note [Claims beside orders]

A claim holds as far as the bid pays for it, at the price without any claims. This price needs the
orders that would run then: if it left out an order that waits, a claim would keep that order out at
any limit. Example: an order of 300 units for 90 credits runs on a host of 400. A VM there bids 5
and claims all 400. Without the order a unit costs the reserve price, and the claim holds: the order
is displaced, and the VM pays 0.4. Beside the order the VM gets 100 units for 5 credits, so a unit
costs 0.05 and 100 units of the claim hold.

An order that would run bids its height times the weights, which is at least the price: so its VMs
get their full size, whatever its limit is. An order that could run on no hosts raises no price.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.contract import Pricing
from merkatd.placement.market.orders.local_clearing import cleared_market


@dataclass(frozen=True, slots=True, eq=False)
class OrdersAsBids:
    """The VMs of the orders that would run."""

    rows: Ints
    """Snapshot rows."""
    host: Ints
    """[rows]: snapshot rows of the hosts on which they would run."""
    bid: Floats
    """[rows, resources]"""


def orders_as_bids(unclaimed: Snapshot, pricings: Sequence[Pricing | None]) -> OrdersAsBids:
    """Return the orders that would run in the cloud without claims, by the markets' pricings.

    A market without limit orders has None.
    """
    vms = unclaimed.vms
    markets = np.unique(vms.market[vms.order != NO_ROW]).tolist()
    parts = [
        _of_market(unclaimed, market, pricing)
        for market in markets
        if market >= 0 and (pricing := pricings[market]) is not None
    ]
    none = np.zeros(0, dtype=np.int64)
    rows, host, bid = zip(
        (none, none, np.zeros((0, len(unclaimed.resources)))), *parts, strict=True
    )
    return OrdersAsBids(np.concatenate(rows), np.concatenate(host), np.concatenate(bid))


def _of_market(snapshot: Snapshot, market: int, pricing: Pricing) -> tuple[Ints, Ints, Floats]:
    places, book, clearing, *_ = cleared_market(snapshot, market, pricing)
    members = clearing.runs[places.order]
    vms, view = places.members[members], places.view
    bid = view.size[vms] * book.weights * book.height[places.order[members], np.newaxis]
    return view.vms[vms], np.append(view.hosts, NO_HOST)[places.taken(members)], bid
