"""Properties of plans with limit orders, on random small clouds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from merkatd.cluster import (
    BIDDING,
    Decision,
    Deploy,
    HostState,
    Ints,
    Markets,
    Migrate,
    Orders,
    Snapshot,
    Stop,
    VmState,
)
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of
from merkatd.cluster.orders import with_order_terms
from merkatd.cluster.plan import Step
from merkatd.market.market_view import market_view
from merkatd.placement.market.orders import order_clearing
from tests.clouds import cloud, hosts_table, vms_table
from tests.lengths import shorten
from tests.placement.test_order_clearing import decided, with_random_orders

COUNT = shorten(1000, 30)
SEEDS = st.integers(0, 2**32 - 1)
STRATEGIES = st.sampled_from(["tabu", "paper"])
CLOSE = 1e-9


def crowded_with_orders(seed: int) -> Snapshot:
    """Return hosts that VMs with floors and bids share, and orders that run or wait."""
    rng = np.random.default_rng(seed)
    hosts, bidding = int(rng.integers(2, 6)), int(rng.integers(4, 16))
    sizes = rng.integers(1, 4, int(rng.integers(1, 4)))
    order = np.append(np.full(bidding, NO_ROW), np.repeat(np.arange(len(sizes)), sizes))
    ordered, runs = order != NO_ROW, np.append(rng.random(len(sizes)) < 0.4, True)
    host = np.where(runs[order], rng.integers(0, hosts, len(order)), NO_HOST)
    cap = rng.choice([20.0, 40.0, 60.0], (len(order), 1))
    floor = np.where(ordered[:, np.newaxis], 0.0, cap * rng.choice([0.0, 0.3, 0.6], cap.shape))
    limit = np.append(rng.lognormal(1.0, 1.5, len(sizes)), 0.0)[order].reshape(-1, 1)
    bid = np.where(ordered[:, np.newaxis], limit, rng.lognormal(0.0, 1.5, cap.shape))
    return cloud(
        hosts_table(np.full((hosts, 1), 100.0)),
        vms_table(host, bid, cap, floor=floor, order=order),
        orders=Orders(id=np.arange(len(sizes)) + 100),
        markets=Markets(name=("default",), announced=np.array([[0.02]])),
    )


def tangled_with_orders(seed: int) -> Snapshot:
    """Return two markets with rules, drained hosts, and VMs that are busy or can't be stopped."""
    snapshot, rng = with_random_orders(seed), np.random.default_rng([seed, 1])
    vms, hosts = snapshot.vms, snapshot.hosts
    count = len(vms)
    held = vms.cap * rng.uniform(0.0, 1.0, vms.cap.shape)
    held[rng.random(count) < 0.2] = np.nan
    busy = (vms.state == VmState.RUNNING) & (rng.random(count) < 0.1)
    closed = (hosts.state == HostState.ON) & (rng.random(len(hosts)) < 0.1)
    return replace(
        snapshot,
        hosts=replace(hosts, state=np.where(closed, int(HostState.DISABLED), hosts.state)),
        vms=replace(
            vms,
            state=np.where(busy, int(VmState.BUSY), vms.state),
            stays=rng.random(count) < 0.5,
            stop_fails=rng.random(count) < 0.15,
            leaves=(rng.random(count) < 0.05) & (vms.host != NO_HOST),
            held=held,
        ),
    )


CLOUDS = st.sampled_from([crowded_with_orders, tangled_with_orders])


def members(snapshot: Snapshot, order: int) -> Ints:
    """Return the rows of an order's VMs."""
    row = int(np.flatnonzero(snapshot.orders.id == order)[0])
    return np.flatnonzero(snapshot.vms.order == row)


def stopped(decision: Decision) -> list[int]:
    """Return the VMs that the plan stops."""
    return [step.vm for step in decision.plan.of(Stop)]


@settings(max_examples=COUNT)
@given(SEEDS, CLOUDS, STRATEGIES)
@example(23, crowded_with_orders, "tabu")  # a new VM would wait for a gain
@example(64, crowded_with_orders, "paper")  # another VM would arrive first
def test_orders_start_whole_and_pay_at_most_their_limits(
    seed: int, draw: Callable[[int], Snapshot], name: str
) -> None:
    """VMs of waiting orders get nothing; no VM of a gang waits for a migration."""
    snapshot = draw(seed)
    decision, vms = decided(snapshot, name), snapshot.vms
    deployed = {step.vm: step for step in decision.plan.of(Deploy)}
    for outcome in decision.orders.values():
        rows = members(snapshot, outcome.id)
        waiting = rows[vms.state[rows] == VmState.PENDING]
        steps = [deployed.get(vm) for vm in vms.id[waiting].tolist()]
        assert all(steps) or not any(steps)
        assert not any(step.after for step in steps if step is not None)
        assert outcome.runs or not any(steps)
        if not any(steps):
            assert not decision.allocations[waiting].any()
        limit = vms.bid[rows[is_one_of(vms.state[rows], BIDDING)]].sum()
        assert outcome.cost is not None
        assert outcome.cost <= limit * (1 + CLOSE)


@settings(max_examples=COUNT)
@given(SEEDS, CLOUDS, STRATEGIES)
def test_no_host_is_overfull_after_any_part_of_the_plan(
    seed: int, draw: Callable[[int], Snapshot], name: str
) -> None:
    """Steps that wait for nothing fit together before any VM has left its host."""
    snapshot = draw(seed)
    decision = decided(snapshot, name)
    seen = with_order_terms(snapshot, decision.order_terms)
    for market in range(len(snapshot.markets)):
        view = market_view(seen, market)
        row_of_vm = {int(vm): row for row, vm in enumerate(snapshot.vms.id[view.vms])}
        row_of_host = {int(host): row for row, host in enumerate(snapshot.hosts.id[view.hosts])}
        arrivals: list[Step] = [
            step
            for step in decision.plan
            if isinstance(step, Deploy | Migrate) and step.vm in row_of_vm
        ]
        floors = np.zeros_like(view.capacity)
        placed = view.place != NO_HOST
        np.add.at(floors, view.place[placed], view.floor[placed])
        at_once, room = floors.copy(), view.capacity * (1 + CLOSE) + CLOSE
        for step in arrivals:
            assert isinstance(step, Deploy | Migrate)
            to, floor = row_of_host[step.host], view.floor[row_of_vm[step.vm]]
            floors[to] += floor
            assert (floors[to] <= room[to]).all()
            if isinstance(step, Migrate):
                floors[row_of_host[step.source]] -= floor
            if not step.after:
                at_once[to] += floor
                assert (at_once[to] <= room[to]).all()


@contextmanager
def unmoved_in(module: Any) -> Iterator[set[int]]:
    """Yield the ids of the VMs that decisions keep where they are, instead of moving them."""
    kept, real = set[int](), module.unmoved_vms

    def recorded(*given: Any) -> dict[int, str]:
        found: dict[int, str] = real(*given)
        kept.update(found)
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "unmoved_vms", recorded)
        yield kept


@settings(max_examples=COUNT)
@example(5624, tangled_with_orders)
@given(SEEDS, CLOUDS)
def test_orders_are_displaced_for_orders_that_run(
    seed: int, draw: Callable[[int], Snapshot]
) -> None:
    """An order that would run without all others is stopped only if another one runs.

    Memory of VMs that can't be stopped keeps an order out, too, and so does a rule of a VM group.
    An order is displaced for a period, too, if its plan can move only a part of its VMs.
    """
    snapshot = draw(seed)
    nothing = np.zeros(len(snapshot.vms), dtype=bool)
    alike = np.full(len(snapshot.vms), NO_ROW)
    vms = replace(snapshot.vms, stop_fails=nothing, stays=nothing, role=alike)
    snapshot = replace(snapshot, vms=vms)
    with unmoved_in(order_clearing) as unmoved:
        decision = decided(snapshot)
    for outcome in decision.orders.values():
        rows = members(snapshot, outcome.id)
        if not is_one_of(vms.id[rows], stopped(decision)).any():
            continue
        if is_one_of(vms.id[rows], unmoved).any():
            continue
        others = (vms.order != NO_ROW) & (vms.order != vms.order[rows[0]])
        leaving = others & is_one_of(vms.state, [VmState.PENDING, VmState.RUNNING])
        alone = replace(
            vms,
            state=np.where(leaving, int(VmState.ABSENT), vms.state),
            order=np.where(leaving, NO_ROW, vms.order),
        )
        if decided(replace(snapshot, vms=alone)).orders[outcome.id].runs:
            assert any(other.runs for other in decision.orders.values())


@settings(max_examples=shorten(200, 10), deadline=None)
@given(SEEDS)
@example(423)  # a VM that makes room would go where the order's other VM is to start
@example(540074)  # without hold times a VM would move to and fro
def test_displaced_orders_make_room_for_orders_that_start(seed: int) -> None:
    """With constant input, orders that run have all their VMs on hosts after some periods."""
    snapshot = crowded_with_orders(seed)
    for _ in range(12):
        decision = decided(snapshot)
        snapshot = after(snapshot, decision)
    for outcome in decision.orders.values():
        if outcome.runs:
            assert (snapshot.vms.host[members(snapshot, outcome.id)] != NO_HOST).all()


def after(snapshot: Snapshot, decision: Decision) -> Snapshot:
    """Return the cloud a minute later: stopped VMs wait again, and all migrations are made."""
    host, state = snapshot.vms.host.copy(), snapshot.vms.state.copy()
    moved_at_s = snapshot.vms.moved_at_s.copy()
    for step in decision.plan:
        row = snapshot.vm_row(step.vm)
        if isinstance(step, Stop):
            host[row], state[row] = NO_HOST, VmState.PENDING
        elif isinstance(step, Deploy | Migrate) and not step.after:
            host[row], state[row] = snapshot.host_row(step.host), VmState.RUNNING
            if isinstance(step, Migrate):
                moved_at_s[row] = snapshot.now_s
    vms = replace(snapshot.vms, host=host, state=state, moved_at_s=moved_at_s)
    return replace(snapshot, now_s=snapshot.now_s + 60.0, vms=vms)
