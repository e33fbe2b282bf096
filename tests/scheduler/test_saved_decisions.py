"""A saved snapshot decides again what the daemon decided: without it, anywhere, to the bit."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.cluster import Decision, Deploy, Migrate, Plan, Resume, Snapshot, Suspend, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.cluster.plan import Step
from merkatd.cluster.snapshot import SnapshotError
from merkatd.cluster.snapshot_json import loads_with_decision
from merkatd.cluster.snapshot_npz import from_npz_with_decision, to_npz
from merkatd.placement.contract import Allocation, Charge
from merkatd.placement.markets_in_turn import basis_from_json, decide_again
from merkatd.placement.registry import STRATEGIES
from merkatd.placement.tabu.tabu import TabuSettings
from merkatd.scheduler.base.settings import MarketRules
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.period_view import PeriodViews
from merkatd.service.daemon_control import DaemonControl
from tests.placement.conformance.strategy_clouds import bits
from tests.scheduler.frontend import Frontend
from tests.scheduler.scripted_strategy import scripted

HOSTS = 12
PLAIN = STRATEGIES["tabu"]


def drawing(
    snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
) -> Decision:
    """Start each waiting VM on a host that is drawn; remember numbers, texts and arrays."""
    decision = PLAIN.strategy(snapshot, settings, {}, random)
    seen = memory.get("drawn", np.zeros(0))
    waits = snapshot.vms.id[snapshot.vms.state == VmState.PENDING].tolist()
    hosts = random.integers(HOSTS, size=len(waits))
    steps: list[Step] = [
        Deploy(
            period=snapshot.period,
            vm=vm,
            reason=f"drawn after {len(seen)} others",
            host=int(snapshot.hosts.id[host]),
        )
        for vm, host in zip(waits, hosts.tolist(), strict=True)
    ]
    kept = {
        "drawn": np.append(seen, random.random(len(waits))),
        "lately": {"hosts": hosts.tolist(), "name": "drawing"},
        "unknown": memory.get("unknown", np.array([np.nan, 1.0, np.inf, -np.inf, -0.0])),
    }
    return replace(decision, plan=Plan.ordered(steps), memory=kept)


@pytest.fixture
def drawn() -> Iterator[None]:
    """Replace the default strategy by one that draws."""
    entries = cast("dict[str, Any]", STRATEGIES)
    entries["tabu"] = replace(PLAIN, strategy=drawing)
    yield
    entries["tabu"] = PLAIN


def saved(frontend: Frontend) -> str:
    """Return the file of the latest decision."""
    control = DaemonControl(frontend.scheduler, PeriodViews(frontend.scheduler))
    return str(frontend.result(ensureDeferred(control.snapshot(LOCAL))))


def decided_from(text: str, *, compact: bool = False) -> Decision:
    """Return the decision of a file, in either form."""
    snapshot, stored = loads_with_decision(text)
    if compact:
        snapshot, stored = from_npz_with_decision(to_npz(snapshot, stored))
    return decide_again(snapshot, basis_from_json(stored, snapshot))


def moves(decision: Decision) -> dict[int, tuple[str, int, str]]:
    """Return where a decision starts or moves VMs, and why."""
    return {
        step.vm: (step.id, step.host, step.reason)
        for step in decision.plan
        if isinstance(step, Deploy | Migrate)
    }


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("compact", [False, True])
def test_a_strategy_that_draws_and_remembers_decides_again(compact: bool) -> None:
    """The file has the seed, and the memory before the decision."""
    frontend = Frontend(HOSTS, seed=3)
    for count in (3, 0, 4):
        for _ in range(count):
            frontend.vm()
        latest = frontend.period()
        frontend.scheduler.latest = latest
        frontend.clock.advance(60.0)
        again, first = decided_from(saved(frontend), compact=compact), latest.decided.decision
        assert moves(again) == moves(first)
        assert len(moves(again)) == count
        assert bits(again.memory) == bits(first.memory)
        assert bits(again.allocations) == bits(first.allocations)
        assert bits(again.prices) == bits(first.prices)
    frontend.close()


def test_a_file_leaves_out_the_resumptions_that_the_daemon_leaves_out() -> None:
    """A VM that its owner has saved stays saved in both; one that a step saved goes on."""

    def steps(seen: Snapshot) -> list[Step]:
        vms = seen.vms
        rests = vms.id[is_one_of(vms.state, (VmState.SUSPENDED, VmState.ABSENT))].tolist()
        return [Resume(period=seen.period, vm=vm, reason="its turn comes") for vm in rests]

    def save(seen: Snapshot) -> list[Step]:
        return [Suspend(period=seen.period, vm=other, reason="others are more urgent")]

    with scripted(allocates=Allocation.OWN, charges=Charge.NONE) as script:
        frontend = Frontend(HOSTS)
        own, other = frontend.vm(), frontend.vm()
        frontend.periods(2)
        script.steps = save
        frontend.bench.ok("one.vm.action", "suspend", own)
        frontend.periods(2)
        assert {frontend.state(vm) for vm in (own, other)} == {"SUSPENDED"}
        script.steps = steps
        latest = frontend.period()
        frontend.scheduler.latest = latest
        again, first = decided_from(saved(frontend)), latest.decided.decision
        assert [step.vm for step in first.plan.of(Resume)] == [other]
        assert list(again.plan) == list(first.plan)
        assert (
            again.reasons[own] == first.reasons[own] == "its owner or its platform keeps it saved"
        )
        frontend.close()


def test_each_market_decides_with_its_own_settings() -> None:
    """Two markets run one strategy, one of them without migrations."""
    still = TabuSettings(m_max_part=0.0, m_max_least=0)
    markets = (
        MarketRules(name="gold", cluster_names=frozenset({"gold"}), strategy_settings=still),
        MarketRules(name="rest"),
    )
    frontend = Frontend(hosts=4, markets=markets)
    bench = frontend.bench
    cluster = bench.ok("one.cluster.allocate", "gold")
    bench.ok("one.cluster.adddatastore", cluster, 0)
    for host in (0, 1):
        bench.ok("one.cluster.addhost", cluster, host)
    vms = [
        frontend.vm(cpu_bid=20.0, CPU=4, VCPU=4, SCHED_REQUIREMENTS=f"ID = {host}")
        for host in (0, 2)
        for _ in range(4)
    ]
    frontend.periods(2)
    for vm in vms:
        there = "0 | ID = 1" if frontend.host_of(vm) == 0 else "2 | ID = 3"
        bench.ok("one.vm.update", vm, f'SCHED_REQUIREMENTS="ID = {there}"', 1)
    latest = frontend.period()
    frontend.scheduler.latest = latest
    moved = [step.source for step in latest.decided.decision.plan.of(Migrate)]
    assert moved
    assert set(moved) == {2}
    again = decided_from(saved(frontend))
    assert moves(again) == moves(latest.decided.decision)
    frontend.close()


def row(**parts: Any) -> dict[str, Any]:
    """Return a basis with one market."""
    return {"markets": [{"market": "default", "strategy": "tabu", **parts}]}


def array(**parts: Any) -> dict[str, Any]:
    """Return a basis with an array in the memory."""
    whole = {"dtype": "<i8", "shape": [1], "values": [0], **parts}
    return row(memory={"arrays": {"a": whole}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "decision.seed: must be a whole number"),
        ({"seed": True}, "decision.seed"),
        ({"markets": []}, "decision.markets: must have a row for each of default"),
        ({"extra": 1}, "decision: unknown key 'extra'"),
        (row(strategy="tabo"), "must be one of tabu, paper"),
        (row(strategy=[]), "must be one of tabu, paper"),
        (row(market="gold"), "must be in the order default"),
        (row(settings={"n_iter": 2.5}), "settings.n_iter: must be a whole number"),
        (row(settings={"n_iter": True}), "settings.n_iter: must be a whole number"),
        (row(settings={"hold_s": -1}), "settings.hold_s: must be between 0"),
        (row(settings={"hold_s": 10**400}), "settings.hold_s: must be a number"),
        (row(settings={"objective": "x"}), "settings.objective: must be one of shortfall, error"),
        (row(settings={"objective": []}), "settings.objective: must be one of shortfall, error"),
        (row(settings={"speed": 1}), "settings.speed: is not a setting"),
        (row(settings={"pricing": {"rule": "free"}}), "settings.pricing.rule: must be one of"),
        (row(settings=[]), "settings: must be an object"),
        (row(memory={"other": 1}), "memory: unknown key 'other'"),
        (array(dtype="O"), "memory.arrays.a: is not an array"),
        (array(shape=[9]), "memory.arrays.a: is not an array"),
        (array(values=["x"]), "memory.arrays.a: is not an array"),
        (array(values=None), "memory.arrays.a: is not an array"),
    ],
)
def test_a_damaged_basis_is_named(change: dict[str, Any], message: str) -> None:
    """The message names the place and what is accepted."""
    frontend = Frontend(hosts=1)
    frontend.scheduler.latest = frontend.period()
    data = json.loads(saved(frontend))
    frontend.close()
    data["decision"] |= change
    with pytest.raises(SnapshotError) as raised:
        decided_from(json.dumps(data))
    assert message in str(raised.value)


def test_the_memory_of_another_version_is_left_out() -> None:
    """A file of an older Merkat is decided without it."""
    frontend = Frontend(hosts=1)
    frontend.scheduler.latest = frontend.period()
    data = json.loads(saved(frontend))
    frontend.close()
    row = data["decision"]["markets"][0]
    row["memory"] = {"values": {"count": 3}, "arrays": {}}
    snapshot, _ = loads_with_decision(json.dumps(data))
    assert basis_from_json(data["decision"], snapshot).markets[0].memory == {"count": 3}
    row["version"] += 1
    assert basis_from_json(data["decision"], snapshot).markets[0].memory == {}
