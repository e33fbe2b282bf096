"""A decision that draws random numbers is the same whenever and wherever it is made."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.cluster import Decision, Deploy, Plan, Snapshot, VmState
from merkatd.cluster.plan import Step
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.registry import STRATEGIES
from merkatd.scheduler.base.settings import MarketRules
from merkatd.service.reports.dry_runs import dry_run
from tests.scheduler.frontend import Frontend

HOSTS = 200
PLAIN = STRATEGIES["tabu"]
SEEDS = tuple(range(20))


def anywhere(
    snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
) -> Decision:
    """Start each pending VM on a host that is drawn; count the decisions so far."""
    decision = PLAIN.strategy(snapshot, settings, {}, random)
    waits = snapshot.vms.id[snapshot.vms.state == VmState.PENDING].tolist()
    steps: list[Step] = [
        Deploy(
            period=snapshot.period,
            vm=vm,
            reason=f"drawn, after {memory.get('count', 0)} decisions",
            host=int(random.integers(HOSTS)),
        )
        for vm in waits
    ]
    kept = {"count": memory.get("count", 0) + 1}
    return replace(decision, plan=Plan.ordered(steps), memory=kept)


@pytest.fixture
def drawing() -> Iterator[None]:
    """Replace the default strategy."""
    entries = cast("dict[str, Any]", STRATEGIES)
    entries["tabu"] = replace(PLAIN, strategy=anywhere)
    yield
    entries["tabu"] = PLAIN


def planned(frontend: Frontend) -> dict[int, str]:
    """Return where a period that starts now would start VMs, and why."""
    plan = frontend.result(ensureDeferred(dry_run(frontend.scheduler.world)))
    return {
        each.step.vm: f"{each.host} {each.step.reason}"
        for each in plan.steps
        if isinstance(each.step, Deploy)
    }


@pytest.mark.usefixtures("drawing")
def test_a_plan_shows_what_its_period_then_does() -> None:
    """However often an administrator looks, the period draws the same hosts."""
    frontend, drawn = Frontend(HOSTS, seed=5), set[tuple[int, ...]]()
    for _ in range(3):
        vms = [frontend.vm() for _ in range(3)]
        first = planned(frontend)
        assert planned(frontend) == first
        frontend.period()
        hosts = {vm: frontend.host_of(vm) for vm in vms}
        drawn.add(tuple(hosts.values()))
        for vm, host in hosts.items():
            assert first[vm].startswith(f"host{host:03} drawn")
        frontend.clock.advance(60.0)
    assert len(drawn) == 3, "each period has its own numbers"
    frontend.close()


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("killed", [False, True])
def test_another_process_decides_the_same(killed: bool) -> None:
    """Neither a restart nor other draws before change the numbers; memory outlives the process."""
    frontend = Frontend(HOSTS, seed=6)
    other = Frontend(HOSTS, seed=6)
    for number in range(3):
        own, twin = frontend.vm(), other.vm()
        if killed:
            frontend.start_daemon()
        other.scheduler.world.rng.random(number + 1)
        for each in (frontend, other):
            each.period()
            each.clock.advance(60.0)
        assert frontend.host_of(own) == other.host_of(twin)
    vm = frontend.vm()
    assert "after 3 decisions" in planned(frontend)[vm]
    frontend.close()
    other.close()


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("change", [{"strategy": "paper"}, {"version": 2}, {"name": "gold"}])
def test_no_strategy_gets_the_memory_of_another(change: dict[str, Any]) -> None:
    """Another strategy, version or market begins its count anew."""
    market = MarketRules(**{name: change[name] for name in change if name != "version"})
    entries = cast("dict[str, Any]", STRATEGIES)
    frontend = Frontend(HOSTS)
    for count in (0, 1):
        vm = frontend.vm()
        assert f"after {count} decisions" in planned(frontend)[vm]
        frontend.period()
    plain = entries[market.strategy]
    entries[market.strategy] = replace(
        PLAIN, strategy=anywhere, version=change.get("version", plain.version)
    )
    frontend.world_settings = {"markets": (market,)}
    frontend.start_daemon()
    vm = frontend.vm()
    assert "after 0 decisions" in planned(frontend)[vm]
    entries[market.strategy] = plain
    frontend.close()


def test_numbers_depend_on_seed_period_and_market() -> None:
    """Equal arguments give equal numbers; no two markets, periods or clouds share them."""
    drawn = [
        repeatable_random(seed, period, market).random(4).tobytes()
        for seed in SEEDS
        for period in (1, 2, 3)
        for market in ("default", "gold", "")
    ]
    again = [
        repeatable_random(seed, period, market).random(4).tobytes()
        for seed in SEEDS
        for period in (1, 2, 3)
        for market in ("default", "gold", "")
    ]
    assert drawn == again
    assert len(set(drawn)) == len(drawn)
