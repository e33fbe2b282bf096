"""Limit orders on hosts: whole gangs or none, the shares of bids, the price."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import (
    Decision,
    Deploy,
    Floats,
    HostState,
    Ints,
    Markets,
    Migrate,
    Orders,
    Resume,
    Snapshot,
    Stop,
    VmState,
)
from merkatd.cluster.columns import NO_HOST, NO_MARKET, NO_ROW, is_one_of
from merkatd.cluster.orders import with_order_terms
from merkatd.market.market_view import market_view
from merkatd.market.share import share
from merkatd.placement import strategy_named
from merkatd.placement.contract import Pricing
from tests.clouds import cloud, hosts_table, placed, tangled, vms_table
from tests.lengths import EXAMPLES

PRICING = Pricing(reserve={"cpu": 0.001, "memory": 0.0001})


def decided(snapshot: Snapshot, name: str = "tabu", pricing: Pricing = PRICING) -> Decision:
    """Return a strategy's decision under this pricing."""
    entry = strategy_named(name)
    return entry.decide(snapshot, replace(entry.defaults, pricing=pricing))


def halls(
    hosts: int, vms: list[tuple[int, float, float, int]], announced: float = 0.01
) -> Snapshot:
    """Return hosts of 100 CPU: VMs with host, bid, size and order (-1 for none)."""
    host, bid, size, order = (np.array(column) for column in zip(*vms, strict=True))
    orders = np.unique(order[order >= 0])
    return cloud(
        hosts_table(np.full((hosts, 1), 100.0)),
        vms_table(host, bid.reshape(-1, 1), size.reshape(-1, 1), order=order),
        orders=Orders(id=orders + 10),
        markets=Markets(name=("default",), announced=np.array([[announced]])),
    )


def with_random_orders(seed: int) -> Snapshot:
    """Return a tangled cloud in which about half of the VMs are in limit orders."""
    snapshot, rng = tangled(seed), np.random.default_rng(seed)
    vms, count = snapshot.vms, int(rng.integers(1, 5))
    hosts = np.append(snapshot.hosts.market, NO_MARKET)
    vms = replace(vms, market=np.where(vms.host == NO_HOST, vms.market, hosts[vms.host]))
    order = rng.integers(-count, count, len(vms))
    # The VMs of an order are in one market.
    order = np.where(vms.market >= 0, order * 2 + vms.market, NO_ROW)
    order[order < 0] = NO_ROW
    bid = vms.bid * np.where(order >= 0, rng.lognormal(0, 1, len(vms)), 1.0)[:, np.newaxis]
    return replace(
        snapshot,
        vms=replace(vms, order=order, bid=bid),
        orders=Orders(id=np.arange(2 * count) + 100),
        markets=replace(snapshot.markets, announced=rng.choice([np.nan, 0.1, 3.0], (2, 2))),
    )


def starts(decision: Decision) -> list[int]:
    """Return the VMs that the plan starts."""
    return [step.vm for step in decision.plan.of(Deploy)]


def stops(decision: Decision) -> list[int]:
    """Return the VMs that the plan saves and takes from their hosts."""
    return [step.vm for step in decision.plan.of(Stop)]


def test_the_example_of_the_note() -> None:
    """Order 12 displaces order 11 and starts one period later; it pays what 11 would pay."""
    before = [(0, 3.0, 40.0, 0), (0, 3.0, 40.0, 0), (1, 1.0, 40.0, 1), (1, 1.0, 40.0, 1)]
    new = [(NO_HOST, 2.0, 40.0, 2), (NO_HOST, 2.0, 40.0, 2)]
    decision = decided(halls(2, [*before, *new]))
    assert (starts(decision), stops(decision)) == ([], [2, 3])
    assert {order: its.runs for order, its in decision.orders.items()} == {
        10: True,
        11: False,
        12: True,
    }
    assert decision.orders[12].cost == pytest.approx(2.0)
    assert decision.prices[0, 0] == pytest.approx(2.0 / 80)
    assert decision.reasons[4] == ("limit order 12 starts once other VMs have left its hosts")
    later = decided(halls(2, [*before[:2], *new, (NO_HOST, 1.0, 40.0, 1)]))
    assert starts(later) == [2, 3]


def test_an_order_above_the_price_starts_whole() -> None:
    """Its VMs are packed: the two small ones leave the other host free for the large one."""
    vms = [(NO_HOST, 1.0, 30.0, 0), (NO_HOST, 1.0, 30.0, 0), (NO_HOST, 1.0, 100.0, 0)]
    decision = decided(halls(2, vms))
    assert sorted(starts(decision)) == [0, 1, 2]
    assert decision.orders[10].runs
    assert decision.allocations[:, 0] == pytest.approx([30, 30, 100])


def test_an_order_whose_limit_is_too_low_waits_with_the_price_it_needs() -> None:
    """At a price of 1.25 the bid asks for the other 40 units."""
    decision = decided(halls(1, [(0, 50.0, 100.0, NO_ROW), (NO_HOST, 6.0, 60.0, 0)]))
    assert (starts(decision), decision.orders[10].runs) == ([], False)
    assert decision.orders[10].why == (
        "limit order 10 waits: its limit is 6 credits per period, and it would start with 75.01"
    )
    assert decision.reasons[1] == decision.orders[10].why
    assert decision.allocations[:, 0] == pytest.approx([100, 0])


def test_an_order_for_all_that_bids_never_leave_says_so() -> None:
    """A bid keeps a part of its share at any price: a limit of a billion would be no advice."""
    decision = decided(halls(1, [(0, 50.0, 100.0, NO_ROW), (NO_HOST, 600.0, 100.0, 0)]))
    assert decision.orders[10].why == (
        "limit order 10 waits: it needs 100 % of CPU, and other VMs leave less at any price"
    )


def test_an_order_takes_its_size_from_bids_that_pay_less() -> None:
    """The bid gets the rest of the host; the order pays the bid's price for that."""
    decision = decided(halls(1, [(0, 10.0, 100.0, NO_ROW), (NO_HOST, 60.0, 60.0, 0)]))
    assert starts(decision) == [1]
    assert decision.allocations[:, 0] == pytest.approx([40, 60])
    assert decision.prices[0, 0] == pytest.approx(10 / 40)
    assert decision.orders[10].cost == pytest.approx(60 * 10 / 40)


def test_an_order_that_fits_on_no_hosts_raises_no_price() -> None:
    """Three VMs of 60 units fit the capacity, and not two hosts; a lower order runs instead."""
    rich = [(NO_HOST, 60.0, 60.0, 0)] * 3
    decision = decided(halls(2, [*rich, (0, 5.0, 50.0, NO_ROW), (NO_HOST, 2.0, 80.0, 1)]))
    assert {order: its.runs for order, its in decision.orders.items()} == {10: False, 11: True}
    assert decision.orders[10].why == (
        "limit order 10 waits: no hosts have room for all of its VMs, 180 % of CPU together"
    )
    assert decision.orders[11].cost == pytest.approx(80 * 0.001)
    assert decision.prices[0, 0] == pytest.approx(0.001)
    assert starts(decision) == [4]


@pytest.mark.parametrize("size", [[120.0], [60.0, 60.0, 60.0], [300.0]])
def test_an_order_that_could_never_run_costs_others_nothing(size: list[float]) -> None:
    """Its VMs are too large, and there is no room beside the order above it."""
    never = [(NO_HOST, 400.0, part, 1) for part in size]
    decision = decided(halls(2, [(NO_HOST, 900.0, 100.0, 0), (0, 5.0, 50.0, NO_ROW), *never]))
    assert {order: its.runs for order, its in decision.orders.items()} == {10: True, 11: False}
    assert decision.orders[10].cost == pytest.approx(100 * 0.001)
    assert decision.prices[0, 0] == pytest.approx(0.001)


def test_an_order_that_would_run_alone_raises_the_cost_of_the_one_above() -> None:
    """Its VM fits on a host once the bid has moved to the other one."""
    vms = [(NO_HOST, 9.0, 90.0, 0), (0, 0.5, 20.0, NO_ROW), (1, 0.5, 20.0, NO_ROW)]
    snapshot = halls(2, [*vms, (NO_HOST, 4.0, 100.0, 1)])
    floor = np.array([[0.0], [20.0], [20.0], [0.0]])
    decision = decided(replace(snapshot, vms=replace(snapshot.vms, floor=floor)))
    assert decision.orders[10].cost == pytest.approx(90 * 0.04)
    assert decision.prices[0, 0] == pytest.approx(0.04)


def test_bids_make_room_by_migrations() -> None:
    """The floors of 30 leave 70 units on each of two hosts: one VM moves, then all 80 fit."""
    bids = [(0, 1.0, 50.0, NO_ROW), (1, 1.0, 50.0, NO_ROW)]
    snapshot = halls(2, [*bids, (NO_HOST, 8.0, 80.0, 0)])
    floor = np.array([[30.0], [30.0], [0.0]])
    snapshot = replace(snapshot, vms=replace(snapshot.vms, floor=floor))
    decision = decided(snapshot)
    assert [(type(step), step.vm) for step in decision.plan] == [(Migrate, 0)]
    assert decision.orders[10].runs
    vms = replace(snapshot.vms, host=placed(snapshot, decision))
    assert starts(decided(replace(snapshot, vms=vms))) == [2]


def test_a_vm_that_was_just_moved_makes_no_room() -> None:
    """The order waits, and raises no price."""
    bids = [(0, 1.0, 50.0, NO_ROW), (1, 1.0, 50.0, NO_ROW)]
    snapshot = halls(2, [*bids, (NO_HOST, 8.0, 80.0, 0)])
    floor, moved_at_s = np.array([[30.0], [30.0], [0.0]]), np.array([-10.0, -10.0, np.nan])
    snapshot = replace(snapshot, vms=replace(snapshot.vms, floor=floor, moved_at_s=moved_at_s))
    decision = decided(snapshot)
    assert (decision.plan.steps, decision.orders[10].runs) == ((), False)
    assert decision.prices[0, 0] == pytest.approx(0.001)


def test_vms_of_an_order_that_have_no_room_move_to_other_hosts() -> None:
    """They ran by bids on one host before the order was stated; at full size they need two."""
    vms = [(0, 20.0, 80.0, 0), (0, 20.0, 80.0, 0)]
    decision = decided(halls(2, vms))
    assert [type(step) for step in decision.plan] == [Migrate]
    assert decision.orders[10].runs


def test_saved_vms_of_an_order_are_made_pending() -> None:
    """Whatever the price is: only pending VMs can be placed."""
    snapshot = halls(1, [(NO_HOST, 6.0, 60.0, 0)])
    vms = replace(snapshot.vms, state=np.array([VmState.ABSENT]), saved=np.array([True]))
    plan = decided(replace(snapshot, vms=vms)).plan
    assert [(type(step), step.vm) for step in plan] == [(Resume, 0)]


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["tabu", "paper"]))
def test_a_gang_is_never_split(seed: int, name: str) -> None:
    """All of an order's VMs start or none; all that run are stopped or none."""
    snapshot = with_random_orders(seed)
    decision = decided(snapshot, name)
    vms = snapshot.vms
    for outcome in decision.orders.values():
        members = np.flatnonzero(vms.order == outcome.id - 100)
        waits = members[vms.state[members] == VmState.PENDING]
        runs = members[(vms.state[members] == VmState.RUNNING) & (host_on(snapshot, members))]
        started = is_one_of(vms.id[waits], starts(decision))
        stopped = is_one_of(vms.id[runs], stops(decision))
        assert started.all() or not started.any()
        assert stopped.all() or not stopped.any()
        assert outcome.runs or not started.any()
        assert stopped.any() == (not outcome.runs and len(runs) > 0)
        limit = vms.bid[members].sum()
        assert outcome.cost <= limit * (1 + 1e-9)


def host_on(snapshot: Snapshot, rows: Ints) -> Ints:
    """Return whether these VMs are on a host that answers, of a market."""
    state = np.append(snapshot.hosts.state, HostState.OFF)[snapshot.vms.host[rows]]
    on: Ints = state != HostState.OFF
    return on


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**32 - 1))
def test_bids_get_their_shares_of_the_rest_of_each_host(seed: int) -> None:
    """Eq. 1 with the capacity that orders leave, and full size for their VMs."""
    snapshot = with_random_orders(seed)
    decision = decided(snapshot)
    seen = with_order_terms(snapshot, decision.order_terms)
    moves = [step for step in decision.plan if not isinstance(step, Stop | Resume)]
    host = placed(seen, replace(decision, plan=type(decision.plan)(tuple(moves))))
    for market in range(2):
        view = market_view(seen, market)
        for local, row in enumerate(view.hosts.tolist()):
            here = view.vms[host[view.vms] == row]
            ordered = here[seen.vms.order[here] != NO_ROW]
            others = np.flatnonzero(is_one_of(view.vms, here[seen.vms.order[here] == NO_ROW]))
            active = ordered[seen.vms.floor[ordered].sum(axis=1) > 0]
            for good in range(2):
                taken = seen.vms.floor[active, good].sum()
                left = view.capacity[local, good] - taken
                if left < view.floor[others, good].sum():
                    continue  # overfull: floors are scaled down
                got = decision.allocations[view.vms[others], good]
                assert decision.allocations[active, good] == pytest.approx(
                    seen.vms.floor[active, good], abs=1e-9
                )
                assert got == pytest.approx(eq_1(view, others, good, left), abs=1e-6, rel=1e-9)


def eq_1(view: object, rows: Ints, good: int, capacity: float) -> Floats:
    """Return the shares of these VMs of a capacity."""
    bid, floor, cap = (getattr(view, name)[rows, good].copy() for name in ("bid", "floor", "cap"))
    pool = np.zeros(len(rows), dtype=np.int64)
    return share(bid, floor, cap, pool, np.array([capacity])).allocation


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**32 - 1))
def test_orders_that_are_absent_change_nothing(seed: int) -> None:
    """A table of orders without VMs gives the same decision to the bit."""
    plain = tangled(seed)
    with_table = replace(plain, orders=Orders(id=np.arange(3)))
    one, other = decided(plain), decided(with_table)
    assert one.plan == other.plan
    assert (one.allocations == other.allocations).all()
    assert (one.prices == other.prices).all()


@pytest.mark.parametrize("movable", [True, False])
def test_the_lowest_orders_make_room(movable: bool) -> None:
    """Others need not move, and don't leave because they can't."""
    vms = [(0, 3.0, 60.0, 0), (1, 1.0, 60.0, 1), (NO_HOST, 5.0, 60.0, 2)]
    snapshot = halls(2, vms)
    rows = replace(snapshot.vms, movable=np.array([movable, True, True]))
    decision = decided(replace(snapshot, vms=rows))
    assert [order.runs for order in decision.orders.values()] == [True, False, True]
    assert not decision.plan.of(Migrate)
    assert stops(decision) == [1]
