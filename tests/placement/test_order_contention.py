"""Limit orders against each other at equal heights, and against VMs that bid and wait."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Decision, HostState, Orders, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.cluster.orders import order_costs
from tests.placement.test_order_clearing import decided, halls, starts, stops


def with_floors(snapshot: Snapshot, floors: list[float]) -> Snapshot:
    """Return the cloud in which the VMs have these floors."""
    floor = np.array(floors).reshape(-1, 1)
    return replace(snapshot, vms=replace(snapshot.vms, floor=floor))


def with_orders(
    snapshot: Snapshot,
    runs: list[bool],
    paid: list[float] | None = None,
    limits: list[float] | None = None,
) -> Snapshot:
    """Return the cloud whose orders ran, paid so much, and had these limits."""
    unknown = [np.nan] * len(runs)
    orders = Orders(
        id=snapshot.orders.id,
        runs=np.array(runs),
        paid=np.array(paid or unknown),
        earlier_limit=np.array(limits or unknown),
    )
    return replace(snapshot, orders=orders)


def costs(decision: Decision, snapshot: Snapshot) -> list[float]:
    """Return what each VM of an order costs for a period."""
    assert decision.order_terms is not None
    owed = order_costs(snapshot.vms, decision.order_terms, decision.allocations, decision.prices)
    return [float(cost) for cost in owed[:, 0]]


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
def test_a_vm_that_is_saved_pays_what_it_paid_before_at_most_its_limit(
    paid: float, expected: float
) -> None:
    """And at least the reserve price; the announced price if it paid by its bid before."""
    vms = [(0, 3.0, 60.0, 0), (NO_HOST, 9.0, 60.0, 1)]
    snapshot = with_orders(halls(1, vms), [True, False], [paid, np.nan])
    decision = decided(snapshot)
    assert stops(decision) == [0]
    assert costs(decision, snapshot)[0] == pytest.approx(expected)


ON_ITS_HOST: dict[str, dict[str, Any]] = {
    "boots": {"state": VmState.POWERED_OFF, "starts": True},
    "stays": {"state": VmState.BUSY, "stays": True},
    "fails to stop": {"stop_fails": True},
}
"""Why a displaced VM is on its host for a while."""


@pytest.mark.parametrize("why", ON_ITS_HOST)
def test_a_displaced_vm_that_stays_for_a_while_gets_what_its_limit_buys(why: str) -> None:
    """Otherwise a limit near 0 would keep a host, or its whole size, for nothing."""
    snapshot = halls(1, [(0, 0.5, 100.0, 0), (0, 50.0, 100.0, NO_ROW)])
    columns = {
        name: np.where([True, False], value, getattr(snapshot.vms, name))
        for name, value in ON_ITS_HOST[why].items()
    }
    snapshot = with_orders(
        replace(snapshot, vms=replace(snapshot.vms, **columns)), [True], limits=[0.5]
    )
    decision = decided(snapshot)
    assert not decision.orders[10].runs
    assert decision.allocations[1, 0] > 98.0
    # A VM that boots may take its full size before it gets limits.
    taken = 100.0 if why == "boots" else float(decision.allocations[0, 0])
    assert costs(decision, snapshot)[0] == pytest.approx(min(0.5, taken * decision.prices[0, 0]))


def test_vms_that_wait_for_a_migration_get_what_their_limit_buys() -> None:
    """The migrating VM itself has its full size, as no host takes new limits for it."""
    vms = [
        (0, 0.25, 50.0, 0),
        (1, 0.25, 50.0, 0),
        (1, 60.0, 100.0, NO_ROW),
        (0, 60.0, 50.0, NO_ROW),
    ]
    snapshot = halls(3, vms)
    vms_table = replace(
        snapshot.vms,
        state=np.array([VmState.BUSY, VmState.RUNNING, VmState.RUNNING, VmState.RUNNING]),
        source=np.array([2, NO_HOST, NO_HOST, NO_HOST]),
        movable=np.array([False, True, False, False]),
    )
    snapshot = with_orders(replace(snapshot, vms=vms_table), [True], limits=[0.5])
    hosts = replace(
        snapshot.hosts, state=np.array([HostState.ON, HostState.ON, HostState.DISABLED])
    )
    decision = decided(replace(snapshot, hosts=hosts))
    assert (decision.orders[10].runs, stops(decision)) == (False, [])
    assert decision.allocations[0, 0] == pytest.approx(50.0)
    assert decision.allocations[2, 0] > 98.0


@pytest.mark.parametrize(("earlier", "expected"), [(5.0, 5.0), (0.001, 0.01), (np.nan, 0.01)])
def test_a_lower_limit_does_not_make_a_migration_cheaper(earlier: float, expected: float) -> None:
    """The VM has its earlier share until it arrives, and pays its earlier limit for that."""
    snapshot = halls(2, [(0, 0.01, 60.0, 0), (NO_HOST, 99.0, 100.0, 1), (1, 99.0, 100.0, NO_ROW)])
    vms = replace(
        snapshot.vms,
        state=np.array([VmState.BUSY, VmState.PENDING, VmState.RUNNING]),
        source=np.array([1, NO_HOST, NO_HOST]),
        movable=np.array([False, True, False]),
    )
    limits = [earlier, np.nan]
    snapshot = with_orders(replace(snapshot, vms=vms), [True, False], limits=limits)
    decision = decided(snapshot)
    assert not decision.orders[10].runs
    assert costs(decision, snapshot)[0] == pytest.approx(min(expected, 60 * decision.prices[0, 0]))


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
