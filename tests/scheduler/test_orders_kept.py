"""Limit orders beside failures and other steps: they keep their outcome, and start whole."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from merkatd.cluster import Decision, Deploy, Terminate
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.placement.contract import StrategyEntry
from merkatd.scheduler.observation.observed import Observed
from tests.scheduler.test_ordered_vms import Site


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a cloud with one host."""
    place = Site()
    yield place
    place.agree()
    place.close()


def test_a_failing_strategy_starts_no_new_least_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An order that runs, and one that waits, keep their outcome until the strategy works again."""
    first = site.vms("ann")
    order = site.state_order(first, 3.0, least_run_s=600.0, factor=2.0)
    site.periods(2)
    waiting = site.state_order(site.vms("bob"), 2.0)
    site.periods(1)
    before = [site.limit_order(id_) for id_ in (order, waiting)]
    assert [row.runs for row in before] == [True, False]

    def fail(*_given: Any) -> Decision:
        raise IndexError("3 is out of bounds")

    with monkeypatch.context() as patch:
        patch.setattr(StrategyEntry, "decide", fail)
        for _ in range(2):
            latest = site.periods(1)
            assert "default" in latest.decided.decision.failed
            assert [site.limit_order(id_) for id_ in (order, waiting)] == before
            assert site.states(first) == ["RUNNING"] * 3
            rest_s = site.limit_order(order).rest_s(site.clock.seconds() - 60.0)
            held = site.balances()[site.ann] - site.free(site.ann)
            assert held >= 6.0 * (rest_s / 60.0 - 2)
    site.periods(1)
    assert site.limit_order(order).since_s == before[0].since_s


def test_vms_of_orders_pay_at_most_the_limit_while_the_strategy_fails(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They bid their limit for their size."""
    site.state_order(site.vms("ann"), 3.0)
    site.periods(2)

    def fail(*_given: Any) -> Decision:
        raise IndexError("3 is out of bounds")

    with monkeypatch.context() as patch:
        patch.setattr(StrategyEntry, "decide", fail)
        site.periods(1)
        before = site.balances()[site.ann]
        site.periods(3)
    assert 0.0 < before - site.balances()[site.ann] <= 3 * 3.0 + 1e-6


def test_vms_wait_with_one_of_their_order_that_has_a_proposed_step(site: Site) -> None:
    """They start once it is gone; VMs of another order do not wait for it."""
    gone, *others = site.vms("ann")
    site.state_order([gone, *others], 3.0)
    alone = site.vms("bob", 1)
    site.state_order(alone, 3.0)

    async def end(_database: object, seen: Observed) -> list[Terminate]:
        return [Terminate(period=seen.period, vm=gone, reason="its platform ends it")]

    world = site.scheduler.world
    site.scheduler.world = replace(world, proposals=end)
    latest = site.periods(1)
    assert [step.vm for step in latest.decided.decision.plan.of(Deploy)] == alone
    site.scheduler.world = world
    site.periods(2)
    assert site.states([*others, *alone]) == ["RUNNING"] * 3


def test_an_order_waits_for_its_vm_that_opennebula_has_refused(site: Site) -> None:
    """When the VM is retried, all start together."""
    refused = site.vms("ann", 1)
    site.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.deploy", vm=refused[0]))
    site.periods(1)
    others = site.vms("ann", 2)
    site.state_order([*refused, *others], 3.0)
    latest = site.period()
    assert latest.decided.decision.plan.of(Deploy) == ()
    assert f"waits with VM {refused[0]}" in latest.decided.decision.reasons[others[0]]
    site.cloud.faults.clear()
    for _ in range(10):
        assert len(set(site.states([*refused, *others]))) == 1
        site.periods(1)
    assert site.states([*refused, *others]) == ["RUNNING"] * 3
