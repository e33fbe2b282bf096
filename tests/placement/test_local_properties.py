"""Properties of limit orders on hosts that VMs with bids can't leave, on random small clouds."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from merkatd.cluster import Decision, Requirements, Snapshot, Stop
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.market.orders.order_clearing import clear_orders
from tests.lengths import shorten
from tests.placement.test_order_clearing import PRICING, decided, halls

COUNT = shorten(1000, 40)
SEEDS = st.integers(0, 2**32 - 1)
HOST = 100.0


def one_host(seed: int) -> Snapshot:
    """Return a host with VMs that bid, and orders that run there or wait."""
    rng = np.random.default_rng(seed)
    bids, count = int(rng.integers(1, 4)), int(rng.integers(1, 6))
    vms = [(0, float(rng.lognormal(2.0, 1.5)), 100.0, NO_ROW) for _ in range(bids)]
    for order in range(count):
        size, runs = float(rng.choice([20.0, 30.0, 50.0, 70.0])), rng.random() < 0.3
        vms.append((0 if runs else NO_HOST, float(rng.lognormal(3.0, 1.5)), size, order))
    snapshot = halls(1, vms)
    floor = snapshot.vms.cap * rng.choice([0.0, 0.2], snapshot.vms.cap.shape)
    floor[snapshot.vms.order != NO_ROW] = 0.0
    return replace(snapshot, vms=replace(snapshot.vms, floor=floor))


def among_idle_hosts(snapshot: Snapshot, hosts: int) -> Snapshot:
    """Return the cloud with this number of hosts, where all VMs may use host 0 only."""
    allowed = np.arange(hosts)[np.newaxis] == 0
    larger = halls(hosts, [(NO_HOST, 1.0, 1.0, 0)])
    vms = replace(snapshot.vms, requirement=np.zeros(len(snapshot.vms), dtype=np.int64))
    return replace(
        snapshot,
        hosts=larger.hosts,
        vms=vms,
        requirements=Requirements(name=("host 0",), allowed=allowed),
    )


def results(snapshot: Snapshot) -> dict[int, tuple[bool, float | None]]:
    """Return which orders run, and what they cost."""
    outcomes = clear_orders(snapshot, PRICING).outcomes
    return {
        order: (its.runs, None if its.cost is None else round(its.cost, 9))
        for order, its in outcomes.items()
    }


@settings(max_examples=COUNT)
@given(SEEDS)
def test_a_host_among_idle_ones_has_the_prices_of_a_cloud_of_its_own(seed: int) -> None:
    """If all VMs may use this host only, the other hosts change nothing."""
    alone = one_host(seed)
    assert results(among_idle_hosts(alone, 7)) == results(alone)


def with_requirements(seed: int) -> Snapshot:
    """Return hosts with VMs that bid, and orders of up to three VMs; most are bound to hosts."""
    rng = np.random.default_rng(seed)
    hosts, bids = int(rng.integers(2, 7)), int(rng.integers(1, 8))
    sizes = rng.integers(1, 4, int(rng.integers(1, 6)))
    order = np.append(np.full(bids, NO_ROW), np.repeat(np.arange(len(sizes)), sizes))
    allowed = rng.random((4, hosts)) < 0.5
    allowed[:, 0] |= ~allowed.any(axis=1)
    requirement = rng.integers(-1, 4, len(order))
    runs = np.append(rng.random(len(sizes)) < 0.3, True)[order]
    host = np.full(len(order), NO_HOST)
    for vm in np.flatnonzero(runs).tolist():
        may = np.arange(hosts) if requirement[vm] < 0 else np.flatnonzero(allowed[requirement[vm]])
        host[vm] = rng.choice(may)
    size = np.where(order == NO_ROW, 100.0, rng.choice([20.0, 30.0, 50.0], len(order)))
    bid = rng.lognormal(2.0, 1.5, len(order))
    rows = zip(host.tolist(), bid.tolist(), size.tolist(), order.tolist(), strict=True)
    snapshot = halls(hosts, list(rows))
    return replace(
        snapshot,
        vms=replace(snapshot.vms, requirement=requirement),
        requirements=Requirements(name=tuple("abcd"), allowed=allowed),
    )


def cost_at_bids_alone(snapshot: Snapshot, decision: Decision, order: int) -> float:
    """Return what an order's VMs cost at the prices of the bids that can't leave a host.

    These are the prices of each host alone: what remains of it beside the VMs of orders.
    """
    vms = snapshot.vms
    host = vms.host.copy()
    for step in decision.plan:
        if hasattr(step, "host"):
            host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    runs = np.array([its.runs for _, its in sorted(decision.orders.items())] + [False])
    only = snapshot.requirements.allowed.sum(axis=1) == 1
    bound = np.append(only, False)[vms.requirement] & (vms.order == NO_ROW)
    total = 0.0
    for vm in np.flatnonzero(vms.order == order).tolist():
        here = host == host[vm]
        taken = float(vms.cap[here & runs[vms.order], 0].sum())
        bids = float(vms.bid[here & bound, 0].sum())
        left = HOST - taken
        price = bids / left if left > 0 else np.inf if bids else 0.0
        # A VM asks for no more than its size.
        price = price if price * HOST > bids else 0.0
        total += price * float(vms.cap[vm, 0])
    return total


@settings(max_examples=COUNT, deadline=None)
@given(SEEDS, st.sampled_from(["tabu", "paper"]))
@example(1483, "tabu").via("two orders that would have to change places")
def test_orders_that_run_pay_the_bids_that_cannot_leave_and_at_most_their_limit(
    seed: int, name: str
) -> None:
    """VMs that all may use one host only divide what orders leave of it: their price is paid."""
    snapshot = with_requirements(seed)
    decision = decided(snapshot, name)
    for row, (_, outcome) in enumerate(sorted(decision.orders.items())):
        limit = snapshot.vms.bid[snapshot.vms.order == row].sum()
        assert outcome.cost is not None
        assert outcome.cost <= limit * (1 + 1e-9)
        waits = (snapshot.vms.order == row) & (snapshot.vms.host == NO_HOST)
        started = {step.vm for step in decision.plan if step.kind == "deploy"}
        if outcome.runs and set(snapshot.vms.id[waits].tolist()) <= started:
            assert cost_at_bids_alone(snapshot, decision, row) <= outcome.cost * (1 + 1e-6) + 1e-9


@settings(max_examples=COUNT, deadline=None)
@given(SEEDS, st.floats(1.05, 20.0))
def test_a_higher_limit_stops_no_order_on_a_host_of_its_own_market(
    seed: int, factor: float
) -> None:
    """Nor does it change what the order pays."""
    snapshot = among_idle_hosts(one_host(seed), 5)
    before = results(snapshot)
    for row, order in enumerate(snapshot.orders.id.tolist()):
        bid = np.where(snapshot.vms.order == row, factor, 1.0)[:, np.newaxis] * snapshot.vms.bid
        raised = results(replace(snapshot, vms=replace(snapshot.vms, bid=bid)))
        if before[order][0]:
            assert raised[order] == before[order]


@pytest.mark.parametrize("seed", [275, 599, 1263])
def test_a_displaced_vm_that_could_not_be_moved_says_what_would_start_it(seed: int) -> None:
    """Not that its order pays for the present host, which it leaves."""
    snapshot = with_requirements(seed)
    decision = decided(snapshot)
    stopped = {step.vm for step in decision.plan.of(Stop)}
    assert stopped
    assert all(" waits: " in decision.reasons[vm] for vm in stopped)
