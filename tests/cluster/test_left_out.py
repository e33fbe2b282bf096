"""VMs that a decision leaves out, with their orders and with the steps that need their places."""

import numpy as np

from merkatd.cluster import Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.cluster.left_out import (
    waiting_with,
    with_their_orders,
    without_places,
)
from tests.clouds import cloud, hosts_table, vms_table

HOST = np.array([NO_HOST, NO_HOST, 0, NO_HOST, NO_HOST, 0, NO_HOST])
ORDER = np.array([0, 0, 0, 1, NO_ROW, NO_ROW, NO_ROW])


def two_orders() -> Snapshot:
    """Return VMs 0 to 2 in one order, VM 3 in another, VMs 4 to 6 in none; 2 and 5 run."""
    ones = np.ones((7, 1))
    return cloud(hosts_table(np.array([[9.0]])), vms_table(HOST, ones, ones, order=ORDER))


def test_all_that_wait_in_an_order_are_left_out_together() -> None:
    """Those that run stay, and may not be moved if they are left out themselves."""
    snapshot = without_places(two_orders(), {1, 4, 5})
    assert snapshot.vms.state.tolist() == two_orders().vms.state.tolist()
    assert snapshot.vms.waiting.tolist() == [False, False, False, True, False, False, True]
    assert snapshot.vms.bidding.tolist() == [False, False, True, True, False, True, True]
    assert snapshot.vms.movable.tolist() == [False, False, True, True, False, False, True]


def test_nothing_left_out_is_the_same_cloud() -> None:
    """No column is copied."""
    snapshot = two_orders()
    assert without_places(snapshot, set()) is snapshot


def test_a_vm_that_runs_leaves_out_no_others() -> None:
    """Its order has started already; a VM in no order has no others."""
    snapshot = two_orders()
    assert waiting_with(snapshot, {2, 4, 5}) == {}
    assert waiting_with(snapshot, {1}) == {0: 1}
    assert with_their_orders(snapshot, {1: "no room", 5: "busy"}) == {
        0: "its limit order waits with VM 1",
        1: "no room",
        5: "busy",
    }
