"""Limit orders that rest after refused deployments: they start where no other VM has to leave."""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from tests.placement.test_order_clearing import decided, halls, starts, stops


def resting(snapshot: Snapshot, order: int) -> Snapshot:
    """Return the cloud in which this order rests."""
    rests = np.arange(len(snapshot.orders)) == order
    return replace(snapshot, orders=replace(snapshot.orders, rests=rests))


@pytest.mark.parametrize("bid", [0.0, 50.0])
def test_a_resting_order_displaces_no_order_by_its_price_either(bid: float) -> None:
    """Beside it and a bid of 50, a price of 0.6 would leave no room for the lower order."""
    vms = [(0, 36.0, 60.0, 0), (1, bid, 100.0, NO_ROW), (NO_HOST, 90.0, 60.0, 1)]
    snapshot = halls(2, vms)
    snapshot = replace(snapshot, orders=replace(snapshot.orders, runs=np.array([True, False])))
    assert stops(decided(snapshot)) == ([] if bid == 0.0 else [0])
    decision = decided(resting(snapshot, 1))
    assert (starts(decision), stops(decision)) == ([2] if bid == 0.0 else [], [])
    if bid > 0.0:
        assert decision.reasons[2] == "limit order 11 waits: other VMs would have to leave for it"
        assert (decision.orders[10].runs, decision.orders[10].outbid) == (True, False)


def test_many_resting_orders_keep_no_other_order_from_starting() -> None:
    """Each would displace the running order once the ones above are left out.

    The last order has free room beside the bid.
    """
    many = 20
    vms = [(0, 10.0, 60.0, 0), (1, 0.0, 60.0, NO_ROW)]
    vms += [(NO_HOST, 90.0 - each, 70.0, 1 + each) for each in range(many)]
    snapshot = halls(2, [*vms, (NO_HOST, 9.0, 30.0, 1 + many)])
    count = len(snapshot.orders)
    rests = np.isin(np.arange(count), range(1, 1 + many))
    orders = replace(snapshot.orders, runs=np.arange(count) == 0, rests=rests)
    floor = snapshot.vms.floor.copy()
    floor[1] = 60.0
    decision = decided(replace(snapshot, orders=orders, vms=replace(snapshot.vms, floor=floor)))
    assert (starts(decision), stops(decision)) == ([2 + many], [])
    assert "too many resting orders" in decision.reasons[1 + many]
