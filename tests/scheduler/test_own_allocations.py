"""A strategy that states what each VM gets and charges nothing: it is enforced as it is."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from merkatd.cluster import Decision, Deploy, Plan, Snapshot, VmState
from merkatd.cluster.plan import Step
from merkatd.currency.settings import MoneySettings
from merkatd.market.market_view import market_view
from merkatd.placement.changes.withheld_moves import within_hosts
from merkatd.placement.contract import (
    UNLIMITED_MOVES,
    Allocation,
    Charge,
    StrategyEntry,
    parameter,
)
from merkatd.placement.registry import STRATEGIES
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.terms.ordered_vms import takes_orders
from tests.clouds import cloud, hosts_table, vms_table
from tests.scheduler.frontend import PASSWORD, Frontend


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualSettings:
    """The settings of `equal`: it has no prices."""

    cpu: float = parameter(60.0, unit="percent of a core", most=1000.0)
    """What each VM gets."""


def equal(
    snapshot: Snapshot,
    settings: EqualSettings,
    memory: Mapping[str, Any],
    random: np.random.Generator,
) -> Decision:
    """Start waiting VMs on the first host; give all VMs the same, whatever they bid."""
    del memory, random
    waits = np.flatnonzero(snapshot.vms.state == VmState.PENDING).tolist()
    steps: list[Step] = [
        Deploy(
            period=snapshot.period,
            vm=int(snapshot.vms.id[row]),
            reason="the first host takes all VMs",
            host=int(snapshot.hosts.id[0]),
        )
        for row in waits
    ]
    given = snapshot.vms.cap.copy()
    given[:, 0] = np.minimum(settings.cpu, given[:, 0])
    return Decision(
        plan=Plan.ordered(steps),
        allocations=given,
        prices=np.full((len(snapshot.markets), len(snapshot.resources)), 3.0),
    )


EQUAL = StrategyEntry(
    "equal",
    "the same for each VM",
    EqualSettings,
    equal,
    moves=UNLIMITED_MOVES,
    allocates=Allocation.OWN,
    charges=Charge.NONE,
)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Frontend]:
    """Return a cloud of two hosts whose market runs `equal`."""
    monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), "equal", EQUAL)
    money = MoneySettings(supply=1000.0, starting_credits=0.0)
    frontend = Frontend(hosts=2, markets=(MarketRules(strategy="equal"),), money=money)
    yield frontend
    frontend.agree()
    frontend.close()


def test_allocations_are_enforced_as_the_strategy_states_them(site: Frontend) -> None:
    """Neither bids nor the rest of the host change them."""
    poor, rich = site.vm(0.001), site.vm(500.0)
    site.periods(3)
    assert [site.host_of(vm) for vm in (poor, rich)] == [0, 0]
    quotas = {site.limits(vm).vcpu_quota for vm in (poor, rich)}
    assert quotas == {30_000}, "60 % of a core, for two virtual CPUs"


def test_nothing_is_charged(site: Frontend) -> None:
    """Neither shares nor floors cost anything, whatever price the strategy returns."""
    (ann,) = site.first_tenants(["ann"], 10.0)
    site.vm(500.0, owner=f"ann:{PASSWORD}", MERKAT_MIN_MEMORY=2048, MERKAT_MIN_CPU=100)
    before = site.balances()[ann]
    latest = site.periods(6)
    assert not np.any(latest.decided.decision.prices)
    assert site.balances()[ann] == before


def test_a_tenant_without_credits_runs_as_well(site: Frontend) -> None:
    """Its VMs owe nothing, so none of them is suspended."""
    site.first_tenants(["ann"], 1e-5)
    vm = site.vm(500.0, owner=f"ann:{PASSWORD}")
    site.periods(8)
    assert site.state(vm) == "RUNNING"


def test_limit_orders_need_shares_with_a_price(site: Frontend) -> None:
    """A market that sells none takes no orders."""
    assert takes_orders(MarketRules())
    assert not takes_orders(MarketRules(strategy="groups"))
    assert not takes_orders(site.scheduler.world.markets[0])


def test_a_withheld_migration_never_overfills_its_host() -> None:
    """Floors stay, and all above them is lowered by the same part."""
    size = np.array([[100.0, 10.0], [200.0, 10.0], [100.0, 10.0]])
    floor = size * [[0.5, 1.0], [0.1, 1.0], [0.0, 1.0]]
    snapshot = cloud(
        hosts_table(np.array([[200.0, 100.0], [400.0, 100.0]])),
        vms_table([0, 0, 1], np.ones((3, 2)), size, floor=floor),
    )
    view = market_view(snapshot, 0)
    both = within_hosts(view, np.array([0, 0, 1]), size)
    part = (200.0 - 70.0) / 230.0
    assert both[:, 0] == pytest.approx([50 + 50 * part, 20 + 180 * part, 100.0])
    assert both[:, 1] == pytest.approx([10.0, 10.0, 10.0])
    apart = within_hosts(view, np.array([0, 1, 1]), size)
    assert apart == pytest.approx(size)
