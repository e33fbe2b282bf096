"""The hosts that orders take, as a plain form of the rules finds them, and their VMs' terms."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.support.ordered_clouds import with_gangs
from merkatd.cluster import HostState, Orders, Requirements, Snapshot, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.contract import Pricing
from merkatd.placement.market.orders import order_books
from merkatd.placement.market.orders.order_clearing import ClearedOrders, clear_orders
from tests.clouds import crowded, flavoured
from tests.lengths import shorten
from tests.placement.plain_places import PlainPlaces
from tests.placement.test_order_clearing import PRICING, halls, with_random_orders

TELLING = (6642, 10068, 10275, 10493)
"""Seeds of clouds in which the machine code differed when one of its lines was left out."""


def shown(cleared: ClearedOrders) -> dict[str, Any]:
    """Return everything that was decided, as plain values."""
    terms = cleared.terms
    columns = ("rows", "state", "movable", "cost", "priority", "coming")
    values = {} if terms is None else {name: getattr(terms, name).tolist() for name in columns}
    leaving = [] if terms is None else sorted(terms.leaving.tolist())
    outcomes = {order: (its.runs, its.cost, its.why) for order, its in cleared.outcomes.items()}
    return {
        **values,
        "leaving": leaving,
        "outcomes": outcomes,
        "steps": [step.id for step in cleared.steps],
        "reasons": dict(cleared.reasons),
        "lacking": cleared.lacking.tolist(),
    }


def drawn_cloud(seed: int) -> Snapshot:
    """Draw a cloud with orders, in which hosts have gaps, and many VMs may not be moved."""
    rng = np.random.default_rng(seed)
    if seed % 10 == 0:
        return with_random_orders(seed)
    if seed % 10 == 1:
        return with_gangs((flavoured if seed % 20 == 1 else crowded)(8, seed), seed, rng.random())
    hosts, count = int(rng.integers(2, 6)), int(rng.integers(4, 20))
    order = rng.integers(-3, 6, count)
    size = rng.choice([20.0, 30.0, 40.0, 50.0, 60.0, 80.0], count)
    bid = np.where(order >= 0, rng.lognormal(2, 1, count) * size, 0.01)
    place = rng.integers(-1, hosts, count)
    place[(order < 0) & (place < 0)] = 0
    rows = zip(place.tolist(), bid.tolist(), size.tolist(), order.tolist(), strict=True)
    snapshot = halls(hosts, [(*row[:3], max(row[3], -1)) for row in rows])
    _, rank = np.unique(snapshot.vms.order[snapshot.vms.order >= 0], return_inverse=True)
    numbers = snapshot.vms.order.copy()
    numbers[numbers >= 0] = rank
    disabled = rng.random(hosts) < rng.choice([0.0, 0.3])
    states = np.where(disabled, int(HostState.DISABLED), int(HostState.ON))
    floor = size * np.where(order < 0, rng.choice([0.0, 0.5, 1.0], count), 0.0)
    return replace(
        snapshot,
        hosts=replace(snapshot.hosts, state=states),
        vms=replace(
            snapshot.vms,
            order=numbers,
            floor=floor[:, np.newaxis],
            movable=rng.random(count) < rng.choice([0.7, 1.0]),
            moved_at_s=np.where(rng.random(count) < 0.1, -10.0, np.nan),
            requirement=np.where(rng.random(count) < 0.1, 0, NO_ROW),
        ),
        requirements=Requirements(name=("ssd",), allowed=rng.random((1, hosts)) < 0.7),
    )


@pytest.mark.parametrize("block", range(shorten(100, 10)))
def test_orders_take_the_hosts_that_the_plain_rules_give(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orders that keep their hosts together, and tests of many at once, change nothing."""
    clouds = [drawn_cloud(seed) for seed in range(40 * block, 40 * (block + 1))]
    fast = [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]
    monkeypatch.setattr(order_books, "OrderPlaces", PlainPlaces)
    assert fast == [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]


def test_an_order_without_later_hosts_leaves_its_hosts_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In these clouds the next order needs them."""
    clouds = [drawn_cloud(seed) for seed in TELLING]
    fast = [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]
    monkeypatch.setattr(order_books, "OrderPlaces", PlainPlaces)
    assert fast == [shown(clear_orders(snapshot, PRICING)) for snapshot in clouds]


def test_the_costs_of_an_orders_vms_add_up_to_its_cost() -> None:
    """A displaced one pays as before, at most its limit, and at least the reserve prices."""
    vms = [(0, 9.0, 30.0, 0), (0, 9.0, 20.0, 0), (0, 1.0, 60.0, 1), (0, 0.001, 50.0, 2)]
    cleared = clear_orders(halls(1, vms), PRICING)
    terms = cleared.terms
    assert terms is not None
    assert [its.runs for its in cleared.outcomes.values()] == [True, False, False]
    assert cleared.outcomes[10].cost == pytest.approx(50 * 1.0 / 60)
    assert terms.cost[:, 0] == pytest.approx([30 / 60, 20 / 60, 0.6, 0.05])
    assert terms.movable.tolist() == [True, True, False, False]
    first, same, second, third = terms.priority.tolist()
    assert first == same > second > third


def test_vms_that_start_later_are_absent_and_displaced_ones_that_wait_are_not_stopped() -> None:
    """Only VMs that run are saved."""
    vms = [(0, 1.0, 60.0, 0), (NO_HOST, 9.0, 50.0, 1)]
    snapshot = halls(1, vms)
    cleared = clear_orders(snapshot, PRICING)
    assert cleared.terms is not None
    assert cleared.terms.state.tolist() == [VmState.RUNNING, VmState.ABSENT]
    assert cleared.terms.coming.tolist() == [NO_HOST, 0]
    assert [step.vm for step in cleared.steps] == [0]
    busy = replace(snapshot.vms, state=np.array([VmState.BUSY, VmState.PENDING]))
    assert clear_orders(replace(snapshot, vms=busy), PRICING).steps == ()


def test_a_saved_vm_on_its_way_is_not_resumed_again() -> None:
    """It is pending already."""
    snapshot = halls(1, [(NO_HOST, 6.0, 60.0, 0)])
    vms = replace(snapshot.vms, saved=np.array([True]))
    assert clear_orders(replace(snapshot, vms=vms), PRICING).steps == ()


def test_a_good_without_a_price_counts_for_a_thousandth() -> None:
    """An order that needs all of it is above one that needs as much of the dear good."""
    two = with_gangs(crowded(2, seed=1), 0, 1.0)
    vms = two.vms
    cap = np.full_like(vms.cap, 1.0)
    cap[:2] = [[1_000.0, 1.0], [1.0, 200_000.0]]
    order = np.full(len(vms), NO_ROW)
    order[:2] = [0, 1]
    bid = np.full_like(vms.bid, 1.0)
    state, host = vms.state.copy(), vms.host.copy()
    state[:2], host[:2] = VmState.PENDING, NO_HOST
    vms = replace(vms, cap=cap, order=order, bid=bid, state=state, host=host)
    snapshot = replace(
        two,
        vms=replace(vms, floor=np.zeros_like(cap)),
        orders=Orders(id=np.arange(2)),
        markets=replace(two.markets, announced=np.array([[0.01, np.nan]])),
    )
    terms = clear_orders(snapshot, Pricing(reserve={"cpu": 1e-9, "memory": 1e-12})).terms
    assert terms is not None
    assert terms.priority[1] > terms.priority[0]
