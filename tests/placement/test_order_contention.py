"""Limit orders against each other at equal heights, and against VMs that bid and wait."""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Orders, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from tests.placement.test_order_clearing import decided, halls, starts, stops


def with_floors(snapshot: Snapshot, floors: list[float]) -> Snapshot:
    """Return the cloud in which the VMs have these floors."""
    floor = np.array(floors).reshape(-1, 1)
    return replace(snapshot, vms=replace(snapshot.vms, floor=floor))


def with_orders(snapshot: Snapshot, runs: list[bool], paid: list[float]) -> Snapshot:
    """Return the cloud whose orders ran, and paid so much."""
    orders = Orders(id=snapshot.orders.id, runs=np.array(runs), paid=np.array(paid))
    return replace(snapshot, orders=orders)


@pytest.mark.parametrize("more", [0.0, 1e-13])
def test_an_order_of_equal_height_displaces_no_running_one(more: float) -> None:
    """Not even if the running one is younger, or lower by a rounding error."""
    vms = [(NO_HOST, 3.0 + more, 60.0, 0), (0, 3.0, 60.0, 1)]
    snapshot = with_orders(halls(1, vms), [False, True], [np.nan, 3.0])
    decision = decided(snapshot)
    assert (starts(decision), stops(decision)) == ([], [])
    assert decision.orders[11].cost == pytest.approx(3.0)
    rich = [(NO_HOST, 3.1, 60.0, 0), (0, 3.0, 60.0, 1)]
    assert stops(decided(with_orders(halls(1, rich), [False, True], [np.nan, 3.0]))) == [1]


def test_while_others_leave_for_an_order_it_counts_as_running() -> None:
    """The displaced one, whose VM is still there, does not displace it at an equal height."""
    vms = [(0, 3.0, 60.0, 0), (NO_HOST, 3.0, 60.0, 1)]
    decision = decided(with_orders(halls(1, vms), [False, True], [3.0, np.nan]))
    assert decision.orders[11].runs
    assert stops(decision) == [0]


def test_of_two_new_orders_of_equal_height_the_older_one_starts() -> None:
    """Its id is the lower one."""
    assert starts(decided(halls(1, [(NO_HOST, 3.0, 60.0, 1), (NO_HOST, 3.0, 60.0, 0)]))) == [1]


@pytest.mark.parametrize(("paid", "expected"), [(2.0, 2.0), (7.0, 3.0), (0.0, 0.06), (np.nan, 0.6)])
def test_a_displaced_vm_pays_what_it_paid_before_at_most_its_limit(
    paid: float, expected: float
) -> None:
    """And at least the reserve price; the announced price if it paid by its bid before."""
    vms = [(0, 3.0, 60.0, 0), (NO_HOST, 9.0, 60.0, 1)]
    decision = decided(with_orders(halls(1, vms), [True, False], [paid, np.nan]))
    assert stops(decision) == [0]
    assert decision.order_terms is not None
    assert decision.order_terms.cost[0].sum() == pytest.approx(expected)


def test_an_order_waits_if_a_bid_that_waits_pays_more() -> None:
    """The bid would get the whole host, and pays 75 credits for the 60 units of the order."""
    vms = [(NO_HOST, 50.0, 100.0, NO_ROW), (NO_HOST, 6.0, 60.0, 0)]
    decision = decided(halls(1, vms))
    assert starts(decision) == [0]
    assert decision.orders[10].why == (
        "limit order 10 waits: its limit is 6 credits per period, and it would start with 75.01"
    )
    dearer = decided(halls(1, [vms[0], (NO_HOST, 80.0, 60.0, 0)]))
    assert sorted(starts(dearer)) == [0, 1]
    assert dearer.orders[10].cost == pytest.approx(75.0)


def test_a_bid_that_fits_nowhere_raises_no_price() -> None:
    """Its floor is larger than every host."""
    vms = [(NO_HOST, 50.0, 120.0, NO_ROW), (NO_HOST, 6.0, 60.0, 0)]
    decision = decided(with_floors(halls(2, vms), [120.0, 0.0]))
    assert starts(decision) == [1]
    assert decision.orders[10].cost == pytest.approx(60 * 0.001)


def test_a_bid_without_room_beside_a_running_order_does_not_count_against_it() -> None:
    """Otherwise it could raise the order's cost for ever without a charge."""
    vms = [(NO_HOST, 50.0, 60.0, NO_ROW), (0, 100.0, 60.0, 0)]
    decision = decided(with_floors(halls(1, vms), [60.0, 0.0]))
    assert decision.orders[10].cost == pytest.approx(60 * 0.001)


def test_of_bids_that_wait_only_those_count_that_fit_together() -> None:
    """Their floors fill the host once, so the order pays for one of them."""
    vms = [(NO_HOST, 50.0, 100.0, NO_ROW)] * 3 + [(NO_HOST, 400.0, 60.0, 0)]
    decision = decided(with_floors(halls(1, vms), [60.0, 60.0, 60.0, 0.0]))
    assert decision.orders[10].cost == pytest.approx(75.0)


def test_the_floor_of_a_vm_that_waits_keeps_no_order_out() -> None:
    """It bids next to nothing."""
    vms = [(NO_HOST, 0.1, 100.0, NO_ROW), (NO_HOST, 6.0, 60.0, 0)]
    assert starts(decided(with_floors(halls(1, vms), [60.0, 0.0]))) == [1]


@pytest.mark.parametrize("limit", [1.0, 30.0, 60.0])
def test_an_order_that_fits_on_no_host_beside_floors_raises_no_price(limit: float) -> None:
    """The market has 80 units beside the floors, and no host more than 40."""
    bids = [(0, 50.0, 90.0, NO_ROW), (1, 50.0, 90.0, NO_ROW)]
    decision = decided(with_floors(halls(2, [*bids, (NO_HOST, limit, 50.0, 0)]), [60.0, 60.0, 0.0]))
    assert decision.prices[0, 0] == pytest.approx(0.001)
    assert "no hosts have room" in decision.orders[10].why


def test_an_order_for_which_a_bid_can_move_raises_the_price() -> None:
    """The third host takes the VM that bids, with its floor, and the bids ask for more."""
    bids = [(0, 50.0, 90.0, NO_ROW), (1, 50.0, 90.0, NO_ROW), (2, 50.0, 90.0, NO_ROW)]
    snapshot = with_floors(halls(3, [*bids, (NO_HOST, 20.0, 60.0, 0)]), [60.0, 60.0, 20.0, 0.0])
    assert decided(snapshot).prices[0, 0] == pytest.approx(20.0 / 60.0)
