"""Places of gangs: requirements, VM groups, and VMs that can't leave their hosts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Deploy, HostState, Requirements, RolePolicy, Roles, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from tests.placement.test_order_clearing import decided, halls, starts, stops


def with_vms(snapshot: Snapshot, **columns: Any) -> Snapshot:
    """Return the cloud with these columns of VMs."""
    return replace(snapshot, vms=replace(snapshot.vms, **columns))


def test_vms_that_must_be_together_go_where_all_have_room() -> None:
    """A VM that can't be moved leaves room for one of the two on the fuller host."""
    vms = [(0, 1.0, 50.0, NO_ROW), (NO_HOST, 8.0, 40.0, 0), (NO_HOST, 8.0, 40.0, 0)]
    snapshot = with_vms(
        halls(2, vms),
        role=np.array([-1, 0, 0]),
        floor=np.array([[50.0], [0.0], [0.0]]),
        movable=np.array([False, True, True]),
    )
    together = Roles(name=("pair",), policy=np.array([RolePolicy.TOGETHER]))
    decision = decided(replace(snapshot, roles=together))
    assert [step.host for step in decision.plan.of(Deploy)] == [1, 1]


def test_a_vm_with_requirements_leaves_the_only_host_to_another_one() -> None:
    """Of two equal VMs the first fits on both hosts, and the second on the first host only."""
    snapshot = with_vms(halls(2, [(NO_HOST, 8.0, 60.0, 0)] * 2), requirement=np.array([-1, 0]))
    first_host = Requirements(name=("first",), allowed=np.array([[True, False]]))
    decision = decided(replace(snapshot, requirements=first_host))
    assert sorted((step.vm, step.host) for step in decision.plan.of(Deploy)) == [(0, 1), (1, 0)]


def test_vms_that_must_be_apart_wait_if_hosts_are_too_few() -> None:
    """Three VMs on two hosts."""
    snapshot = with_vms(halls(2, [(NO_HOST, 8.0, 30.0, 0)] * 3), role=np.zeros(3, dtype=np.int64))
    apart = Roles(name=("apart",), policy=np.array([RolePolicy.APART]))
    decision = decided(replace(snapshot, roles=apart))
    assert (decision.plan.steps, decision.orders[10].runs) == ((), False)
    assert decision.prices[0, 0] == pytest.approx(0.001)


STUCK = {
    "busy": {"state": np.array([VmState.BUSY, VmState.PENDING]), "stays": np.array([True, False])},
    "refused": {"stop_fails": np.array([True, False])},
}


@pytest.mark.parametrize("why", STUCK)
@pytest.mark.parametrize(("size", "rest"), [(100.0, 0.0), (70.0, 30.0)])
def test_a_displaced_vm_that_cannot_be_stopped_bids_its_limit(
    why: str, size: float, rest: float
) -> None:
    """The dearer order has its full size beside it, and no price rises because of it."""
    vms = [(0, 1.0, 100.0, 0), (NO_HOST, 50.0, size, 1)]
    decision = decided(with_vms(halls(1, vms), **STUCK[why]))
    assert (starts(decision), stops(decision)) == ([1], [])
    assert decision.allocations[:, 0] == pytest.approx([rest, size])
    assert {order: its.runs for order, its in decision.orders.items()} == {10: False, 11: True}
    assert decision.prices[0, 0] == pytest.approx(0.01)
    terms = decision.order_terms
    assert terms is not None
    assert terms.stuck.tolist() == [True, False]


@pytest.mark.parametrize("held", [60.0, 30.0, np.nan])
def test_a_displaced_vm_keeps_the_memory_that_it_holds(held: float) -> None:
    """An order that needs this memory waits, and has no hosts."""
    snapshot = halls(1, [(0, 1.0, 100.0, 0), (NO_HOST, 50.0, 50.0, 1)])
    memory = replace(snapshot, resources=("memory",))
    amounts = np.array([[held], [np.nan]])
    snapshot = with_vms(memory, stop_fails=np.array([True, False]), held=amounts)
    decision = decided(snapshot)
    # Without another order in its room it runs on.
    assert decision.orders[10].runs == (held != 30.0)
    assert starts(decision) == ([1] if held == 30.0 else [])
    assert decision.allocations[0, 0] == pytest.approx(50.0 if held == 30.0 else 100.0)


@pytest.mark.parametrize("state", [HostState.DRAINED, HostState.DISABLED])
def test_an_order_goes_on_while_no_host_takes_vms(state: HostState) -> None:
    """Nobody displaces it, so it pays the reserve prices."""
    snapshot = halls(2, [(0, 10.0, 40.0, 0), (1, 10.0, 40.0, 0), (NO_HOST, 90.0, 40.0, 1)])
    hosts = replace(snapshot.hosts, state=np.full(2, int(state)))
    decision = decided(replace(snapshot, hosts=hosts))
    assert decision.plan.steps == ()
    assert {order: its.runs for order, its in decision.orders.items()} == {10: True, 11: False}
    assert decision.orders[10].cost == pytest.approx(80 * 0.001)
    assert decision.prices[0, 0] == pytest.approx(0.001)


def test_vms_on_a_drained_host_take_no_room_of_other_hosts() -> None:
    """The bid on the open host pays the price of that host alone."""
    vms = [(0, 10.0, 100.0, 0), (1, 0.05, 100.0, NO_ROW)]
    snapshot = halls(2, vms)
    hosts = replace(snapshot.hosts, state=np.array([HostState.DRAINED, HostState.ON]))
    floor = np.array([[0.0], [90.0]])
    decision = decided(with_vms(replace(snapshot, hosts=hosts), floor=floor))
    assert (decision.plan.steps, decision.orders[10].runs) == ((), True)
    assert decision.allocations[:, 0] == pytest.approx([100.0, 100.0])
    assert decision.prices[0, 0] == pytest.approx(0.001)


def test_bids_on_drained_hosts_do_not_stop_an_order_there() -> None:
    """The floor of a VM that bids, and its bid, need other hosts; the order needs none."""
    vms = [(0, 10.0, 40.0, 0), (1, 50.0, 100.0, NO_ROW)]
    snapshot = halls(2, vms)
    hosts = replace(snapshot.hosts, state=np.full(2, int(HostState.DRAINED)))
    floor = np.array([[0.0], [30.0]])
    decision = decided(with_vms(replace(snapshot, hosts=hosts), floor=floor))
    assert (decision.plan.steps, decision.orders[10].runs) == ((), True)
    assert decision.orders[10].cost == pytest.approx(40 * 0.001)


def test_an_order_with_a_busy_vm_keeps_its_room() -> None:
    """Another order starts at once on the other host."""
    snapshot = halls(2, [(0, 5.0, 60.0, 0), (NO_HOST, 1.0, 50.0, 1)])
    decision = decided(with_vms(snapshot, **STUCK["busy"]))
    assert [step.host for step in decision.plan.of(Deploy)] == [1]
    assert decision.allocations[:, 0] == pytest.approx([60.0, 50.0])
