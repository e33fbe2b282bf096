"""Orders of which a strategy starts some VMs and not others: they wait whole."""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Deploy, Plan, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.placement import strategy_named
from merkatd.placement.market.orders.order_clearing import decide_with_orders
from merkatd.placement.market.orders.order_reasons import split_orders
from merkatd.placement.tabu.tabu import tabu
from tests.placement.test_order_clearing import PRICING, halls, starts

TABU = strategy_named("tabu")


def pairs(orders: int) -> Snapshot:
    """Return pending orders of two VMs, the dearest first, and a host for each."""
    vms = [(NO_HOST, 50.0 - at // 2, 50.0, at // 2) for at in range(2 * orders)]
    return halls(orders, vms)


def start_first_alone(seen: Snapshot) -> Decision:
    """Return the decision of `tabu` without the second VM of the first order that starts."""
    settings = replace(TABU.defaults, pricing=PRICING)
    decision = tabu(seen, settings, {}, np.random.default_rng(0))
    second = min((step.vm for step in decision.plan.of(Deploy) if step.vm % 2), default=None)
    steps = (step for step in decision.plan if step.vm != second)
    return replace(decision, plan=Plan(tuple(steps)))


def test_only_orders_that_start_in_part_are_split() -> None:
    """Order 11 waits whole, and order 12 starts whole."""
    plan = Plan(tuple(Deploy(period=1, vm=vm, reason="", host=0) for vm in (0, 4, 5)))
    split = split_orders(pairs(3), plan)
    assert set(split) == {0, 1}
    assert set(split.values()) == {"limit order 10 waits: no room was found for all of its VMs"}


def test_every_split_order_says_why_it_waits() -> None:
    """One after the other is found; in the end none is left to start."""
    decision = decide_with_orders(pairs(3), PRICING, start_first_alone)
    assert starts(decision) == []
    assert [decision.reasons[vm][:14] for vm in range(6)] == [
        f"limit order {10 + vm // 2}" for vm in range(6)
    ]
    assert all("no room was found" in decision.reasons[vm] for vm in range(6))


def test_no_order_starts_in_part_when_the_rounds_are_used_up() -> None:
    """With more split orders than rounds, none starts at all."""
    decision = decide_with_orders(pairs(10), PRICING, start_first_alone)
    assert starts(decision) == []
    assert set(decision.reasons) == set(range(20))
