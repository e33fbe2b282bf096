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
