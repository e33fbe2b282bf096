"""Limit orders on hosts that VMs with bids can't leave."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Decision, Deploy, Migrate, Orders, Requirements, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.market.orders.order_clearing import clear_orders
from tests.placement.test_order_clearing import PRICING, decided, halls, starts, stops
from tests.placement.test_order_contention import with_floors

ANY = -1


def bound(snapshot: Snapshot, requirement: list[int], allowed: Sequence[Sequence[int]]) -> Snapshot:
    """Return the cloud whose VMs have these requirements, each with the hosts that it allows."""
    may = np.zeros((len(allowed), len(snapshot.hosts)), dtype=bool)
    for row, hosts in enumerate(allowed):
        may[row, list(hosts)] = True
    names = tuple(f"r{row}" for row in range(len(allowed)))
    vms = replace(snapshot.vms, requirement=np.array(requirement))
    return replace(snapshot, vms=vms, requirements=Requirements(name=names, allowed=may))


def two_bids(limit: float, size: float, hosts: int = 4) -> Snapshot:
    """Return idle hosts; two VMs bound to host 0 bid 50 each, and an order may only use it, too."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (NO_HOST, limit, size, 0)]
    return bound(halls(hosts, vms), [0, 0, 0], [[0]])


def why(decision: Decision) -> str:
    """Return why order 10 waits."""
    return decision.orders[10].why


def test_an_order_for_a_whole_host_that_bids_never_leave_waits() -> None:
    """The market has idle hosts, and the bids can't use them."""
    decision = decided(two_bids(0.2, 100.0))
    assert (starts(decision), decision.orders[10].runs) == ([], False)
    assert why(decision) == (
        "limit order 10 waits: it needs 100 % of CPU, and VMs that can't leave its hosts"
        " leave less at any price"
    )
    assert decision.allocations[:2, 0].tolist() == [50.0, 50.0]


def test_an_order_waits_below_the_local_price_and_says_its_limit() -> None:
    """At a price of 100 / 40 the bids leave 60 units: the order needs 150 credits."""
    decision = decided(two_bids(149.0, 60.0))
    assert starts(decision) == []
    assert why(decision) == (
        "limit order 10 waits: its limit is 149 credits per period, and it would start with 150.1:"
        " VMs that can't leave its hosts bid more"
    )
    assert decision.orders[10].outbid
    assert decision.reasons[2] == why(decision)


def test_an_order_above_the_local_price_runs_and_pays_it() -> None:
    """A higher limit does not change the cost."""
    for limit in (151.0, 1e6):
        decision = decided(two_bids(limit, 60.0))
        assert starts(decision) == [2]
        assert decision.orders[10].cost == pytest.approx(150.0)
        assert decision.allocations[:, 0] == pytest.approx([20.0, 20.0, 60.0])


def test_an_order_beside_bids_that_leave_it_room_pays_the_market_price() -> None:
    """The VMs can use 60 units together, and 40 are free."""
    vms = [(0, 50.0, 30.0, NO_ROW), (0, 50.0, 30.0, NO_ROW), (NO_HOST, 1.0, 40.0, 0)]
    decision = decided(bound(halls(4, vms), [0, 0, 0], [[0]]))
    assert starts(decision) == [2]
    assert decision.orders[10].cost == pytest.approx(40 * 0.001)


def test_bids_that_can_leave_make_no_local_price() -> None:
    """The VMs on host 0 are not bound to it, and three hosts are idle."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (NO_HOST, 0.2, 100.0, 0)]
    decision = decided(bound(halls(4, vms), [ANY, ANY, 0], [[0]]))
    assert decision.orders[10].runs
    assert starts(decision) == [2]


def test_a_running_order_is_displaced_by_bids_that_came_to_its_hosts() -> None:
    """It pays what it paid before until it has left."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (0, 20.0, 60.0, 0)]
    snapshot = bound(halls(4, vms), [0, 0, 0], [[0]])
    orders = Orders(id=np.array([10]), runs=np.array([True]), paid=np.array([7.0]))
    decision = decided(replace(snapshot, orders=orders))
    assert stops(decision) == [2]
    assert decision.order_terms is not None
    assert decision.order_terms.cost.sum() == pytest.approx(7.0)


def test_each_waiting_order_is_compared_at_once() -> None:
    """Ten orders for host 0 with too low limits: none of them runs because others were tried."""
    bids = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW)]
    orders = [(NO_HOST, 5.0 + row, 60.0, row) for row in range(20)]
    decision = decided(bound(halls(4, [*bids, *orders]), [0] * 22, [[0]]))
    assert starts(decision) == []
    assert not any(order.runs for order in decision.orders.values())


def test_an_order_that_may_use_other_hosts_goes_there() -> None:
    """Host 0 is the fullest with room, but too dear."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (1, 0.1, 20.0, NO_ROW)]
    snapshot = bound(halls(20, [*vms, (NO_HOST, 9.0, 60.0, 0)]), [0, 0, ANY, ANY], [[0]])
    snapshot = with_floors(snapshot, [20.0, 0.0, 10.0, 0.0])
    decision = decided(snapshot)
    assert [(step.vm, step.host) for step in decision.plan.of(Deploy)] == [(3, 1)]
    assert decision.orders[10].cost == pytest.approx(0.06)


def test_twenty_orders_that_may_use_other_hosts_leave_the_dear_one_alone() -> None:
    """Nineteen hosts are free for nineteen of them; the last one waits."""
    bids = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW)]
    orders = [(NO_HOST, 5.0 + row, 60.0, row) for row in range(20)]
    decision = decided(bound(halls(20, [*bids, *orders]), [0, 0, *[ANY] * 20], [[0]]))
    assert sorted(starts(decision)) == list(range(3, 22))
    to = {step.host for step in decision.plan.of(Deploy)}
    assert to == set(range(1, 20))
    assert "VMs that can't leave its hosts bid more" in why(decision)


def test_a_running_order_migrates_away_from_a_host_that_became_dear() -> None:
    """The other host is idle, and the order may use it."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (0, 9.0, 60.0, 0)]
    decision = decided(bound(halls(20, vms), [0, 0, ANY], [[0]]))
    assert stops(decision) == []
    assert [step.vm for step in decision.plan.of(Migrate)] == [2]
    assert decision.orders[10].runs


def test_an_order_stays_on_a_dear_host_if_its_limit_pays_for_it() -> None:
    """It may use others, which are full."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (0, 400.0, 60.0, 0)]
    vms.append((1, 9000.0, 100.0, 1))
    decision = decided(bound(halls(2, vms), [0, 0, ANY, ANY], [[0]]))
    assert len(decision.plan) == 0
    assert decision.orders[10].cost == pytest.approx(150.0)


def test_bids_of_a_smaller_set_count_with_what_they_can_get_there() -> None:
    """Those bound to host 0 can use no more than it; a small one may use hosts 0 and 1."""
    bids = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (1, 0.1, 100.0, NO_ROW)]
    snapshot = halls(4, [*bids, (NO_HOST, 1.0, 60.0, 0)])
    decision = decided(bound(snapshot, [0, 0, 1, 2], [[0], [0, 1], [1]]))
    assert starts(decision) == [3]
    assert decision.orders[10].cost == pytest.approx(60 * 0.1 / 40, rel=1e-6)


def test_only_the_vms_on_dear_hosts_pay_the_local_price() -> None:
    """One VM of the order is bound to host 0, and the other is free."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW)]
    for limit, runs in ((149.0, False), (151.0, True)):
        gang = [(NO_HOST, limit / 2, 60.0, 0), (NO_HOST, limit / 2, 60.0, 0)]
        decision = decided(bound(halls(4, [*vms, *gang]), [0, 0, 0, ANY], [[0]]))
        assert decision.orders[10].runs == runs
        if runs:
            assert decision.orders[10].cost == pytest.approx(150.0 + 60 * 0.001)


def test_vms_that_stay_on_a_dear_host_would_be_outbid_so_they_must_leave() -> None:
    """The order's terms say so, whatever moves the strategy finds."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (0, 9.0, 60.0, 0)]
    terms = clear_orders(bound(halls(20, vms), [0, 0, ANY], [[0]]), PRICING).terms
    assert terms is not None
    assert terms.leaving.tolist() == [2]
    assert terms.going[0] != 0


@pytest.mark.parametrize(("limit", "runs"), [(290.0, False), (310.0, True)])
def test_a_limit_must_pay_the_sum_of_all_dear_hosts(limit: float, runs: bool) -> None:
    """Each of two VMs is bound to another host, and costs 150 credits there."""
    bids = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW)]
    bids += [(1, 50.0, 100.0, NO_ROW), (1, 50.0, 100.0, NO_ROW)]
    gang = [(NO_HOST, limit / 2, 60.0, 0), (NO_HOST, limit / 2, 60.0, 0)]
    snapshot = bound(halls(20, [*bids, *gang]), [0, 0, 1, 1, 0, 1], [[0], [1]])
    decision = decided(snapshot)
    assert decision.orders[10].runs == runs
    assert decision.orders[10].cost == pytest.approx(300.0 if runs else 0.0)
    assert runs or "it would start with 300" in why(decision)


def beside_others(size: float, *more: tuple[int, float, float, int]) -> Snapshot:
    """Return `two_bids` of owner 1 beside 32 hosts, each with a high bid of owner 2 bound to it."""
    vms = [(0, 50.0, 100.0, NO_ROW), (0, 50.0, 100.0, NO_ROW), (NO_HOST, 0.2, 60.0, 0)]
    count = len(vms)
    vms += [(host, 200.0, size, NO_ROW) for host in range(1, 33)]
    requirement = [0] * count + list(range(1, 33)) + [ANY] * len(more)
    snapshot = bound(halls(40, [*vms, *more]), requirement, [[host] for host in range(33)])
    owner = np.where(np.isin(np.arange(len(requirement)), [0, 1]), 1, 2)
    return replace(snapshot, vms=replace(snapshot.vms, owner=owner))


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_bids_on_hosts_without_contention_keep_no_local_price_out(size: float) -> None:
    """They pay the reserve price, whatever they bid."""
    decision = decided(beside_others(size))
    assert (starts(decision), decision.orders[10].runs) == ([], False)
    assert decision.allocations[:2, 0].tolist() == [50.0, 50.0]


def test_one_owner_with_many_requirements_keeps_no_local_price_out() -> None:
    """An order that may use any host could contend for all of them."""
    decision = decided(beside_others(100.0, (NO_HOST, 1e-4, 60.0, 1)))
    assert (starts(decision), decision.orders[10].runs) == ([], False)
    assert decision.allocations[:2, 0].tolist() == [50.0, 50.0]
