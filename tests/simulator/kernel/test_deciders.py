"""Strategies decide in the kernel as in the daemon: on snapshots, with their own memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Decision, HostState, Plan, Scale, Snapshot, VmState
from merkatd.cluster.snapshot import checked_snapshot
from merkatd.placement.contract import Allocation, Charge, Need, Pricing, StrategyEntry
from merkatd.placement.registry import STRATEGIES
from merkatd.placement.snapshot_needs import UnfilledNeedError
from simulator.kernel.data_center import DataCenter, KernelRhythm, tree_of_hosts
from simulator.kernel.event_queue import EventKind
from simulator.kernel.kernel_deciders import StrategyDecider
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase, check_conservation
from tests.placement.conformance.strategy_clouds import bits
from tests.simulator.kernel.small_centers import random_requests, requests

RHYTHM = KernelRhythm(period_s=60.0, monitor_s=60.0)


def small_center() -> DataCenter:
    """Return four equal hosts."""
    return DataCenter(hosts=tree_of_hosts((2, 2), [800.0, 8192.0]), rhythm=RHYTHM)


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_period_is_the_strategys_own_decision(name: str) -> None:
    """The same snapshot, settings, memory and numbers give the same plan outside of the kernel."""
    given: list[tuple[Snapshot, Any, Mapping[str, Any], Any]] = []
    decided: list[Decision] = []
    entry = STRATEGIES[name]

    def listen(
        snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
    ) -> Decision:
        given.append((snapshot, settings, memory, random.bit_generator.state))
        decided.append(entry.strategy(snapshot, settings, memory, random))
        return decided[-1]

    pricing = Pricing(reserve={"cpu": 0.01})
    decider = StrategyDecider(replace(entry, strategy=listen), pricing=pricing)
    run = KernelRun(small_center(), random_requests(5, 20), decider, span_s=1200.0)
    run.run()
    assert len(given) == run.periods == 20
    memory: Mapping[str, Any] = {}
    for (snapshot, settings, had, state), decision in zip(given, decided, strict=True):
        random = np.random.default_rng()
        random.bit_generator.state = state
        again = entry.decide(checked_snapshot(snapshot), settings, had, random)
        assert again.plan == decision.plan
        if entry.charges is Charge.SHARES:
            assert snapshot.markets.reserve.tolist() == [[0.01, 0.0]]
        assert getattr(settings, "pricing", pricing) == pricing
        assert bits(dict(had)) == bits(dict(memory))
        memory = decision.memory
    # Under FCFS one large VM keeps the others waiting.
    assert sum(len(decision.plan) for decision in decided) > (1 if name == "fcfs" else 5)


def test_the_snapshot_is_what_the_daemon_would_observe() -> None:
    """VMs in operations are busy; a migrating VM is on its destination and keeps room on both."""
    asked = requests(np.zeros(3), 1e6, [100.0, 1000.0], floor=np.tile([0.0, 500.0], (3, 1)))
    seen: list[Snapshot] = []

    def strategy(
        snapshot: Snapshot,
        settings: Any,  # noqa: ARG001 - the form of every strategy
        memory: Mapping[str, Any],  # noqa: ARG001
        random: np.random.Generator,  # noqa: ARG001
    ) -> Decision:
        seen.append(snapshot)
        vms = snapshot.vms
        return Decision(Plan(()), np.zeros_like(vms.bid), np.zeros((1, 2)))

    entry = replace(STRATEGIES["pack"], strategy=strategy)
    run = KernelRun(small_center(), asked, StrategyDecider(entry), span_s=300.0)
    rows = np.arange(3)
    run.step()
    run.operations.deploy(rows[:2], np.array([0, 1]))
    while run.state.phase[0] != GuestPhase.RUNNING:
        run.step()
    assert run.operations.migrate(0, 2, live=True)
    assert run.operations.sleep(3)
    while len(seen) < 2:
        run.step()
    first, second = (snapshot.vms for snapshot in seen[:2])
    assert first.state.tolist() == [VmState.BUSY, VmState.BUSY, VmState.PENDING]
    assert second.id.tolist() == [0, 1, 2]
    moving = seen[0] if run.state.source[0] >= 0 else seen[1]
    assert seen[1].hosts.state.tolist() == [HostState.ON] * 3 + [HostState.OFF]
    assert seen[1].hosts.asleep.tolist() == [False, False, False, True]
    assert moving.vms.floor.tolist() == [[0.0, 500.0]] * 3


def test_a_migrating_vm_holds_room_on_both_hosts() -> None:
    """Its source lacks the room in the snapshot, which says that it is reserved."""
    asked = requests([0.0], 1e6, [100.0, 1000.0])
    run = KernelRun(small_center(), asked, StrategyDecider(STRATEGIES["pack"]), span_s=300.0)
    while run.state.phase[0] != GuestPhase.RUNNING:
        run.step()
    source = int(run.state.host[0])
    assert run.operations.migrate(0, 3 - source, live=True)
    snapshot = run._snapshots.snapshot(7, np.zeros(2))
    assert snapshot.vms.host.tolist() == [3 - source]
    assert snapshot.vms.source.tolist() == [source]
    assert snapshot.vms.state.tolist() == [VmState.BUSY]
    assert snapshot.hosts.capacity[source].tolist() == [700.0, 7192.0]
    assert snapshot.hosts.reserved[source].tolist() == [100.0, 1000.0]
    assert snapshot.hosts.capacity[3 - source].tolist() == [800.0, 8192.0]


def test_the_history_has_the_last_monitorings() -> None:
    """Oldest first, with unknown use before a guest computes; none is kept for no samples."""
    asked = requests([0.0, 130.0], 1e6, [100.0, 1000.0], level=[0.5, 1.0])
    pack = STRATEGIES["pack"]
    run = KernelRun(small_center(), asked, StrategyDecider(pack, history_samples=3), span_s=299.0)
    run.run()
    history = run._snapshots.snapshot(9, np.zeros(2)).history
    assert history is not None
    assert history.at_s.tolist() == [180.0, 240.0, 299.0]
    assert history.vms[:, 0, 0].tolist() == [50.0, 50.0, 50.0]
    assert history.vms[:, 1, 1] == pytest.approx([np.nan, 1000.0, 1000.0], nan_ok=True)
    assert history.hosts.sum(axis=1)[:, 0].tolist() == [50.0, 150.0, 150.0]
    checked_snapshot(run._snapshots.snapshot(9, np.zeros(2)))
    none = KernelRun(small_center(), asked, StrategyDecider(pack, history_samples=0), span_s=99.0)
    none.run()
    assert none._snapshots.snapshot(9, np.zeros(2)).history is None


def test_a_strategy_without_what_it_needs_is_reported() -> None:
    """Before its first decision."""
    entry = replace(STRATEGIES["pack"], needs=frozenset({Need.DOMAINS}))
    run = KernelRun(small_center(), random_requests(1, 3), StrategyDecider(entry), span_s=60.0)
    with pytest.raises(UnfilledNeedError, match="domains"):
        run.run()


@pytest.mark.parametrize("name", STRATEGIES)
def test_strategies_start_all_that_fits(name: str) -> None:
    """In a data centre with room for all, every request ends in time, on equal terms."""
    asked = requests(np.arange(12) * 30.0, 100.0, [100.0, 1000.0])
    run = KernelRun(small_center(), asked, StrategyDecider(STRATEGIES[name]), span_s=1200.0)
    outcome = run.run()
    assert outcome.last("ended") == 12
    assert outcome.totals.deploys == 12
    assert run.state.waited_s.max() <= RHYTHM.period_s


def own_amounts(cpu: float, **more: Any) -> StrategyEntry:
    """Return `pack` that states the CPU of each VM itself, with other parts of its decisions."""
    pack = STRATEGIES["pack"]

    def strategy(
        snapshot: Snapshot, settings: Any, memory: Mapping[str, Any], random: np.random.Generator
    ) -> Decision:
        made = pack.strategy(snapshot, settings, memory, random)
        given = np.array(snapshot.vms.cap)
        given[:, 0] = cpu
        parts: dict[str, Any] = {"allocations": given}
        return replace(made, **(parts | {name: make(snapshot) for name, make in more.items()}))

    return replace(
        pack, strategy=strategy, allocates=Allocation.OWN, charges=Charge.NONE, needs=frozenset()
    )


@pytest.mark.parametrize(("cpu", "end_s"), [(100.0, 600.0), (50.0, 1200.0), (25.0, 2400.0)])
def test_amounts_that_a_strategy_states_are_enforced(cpu: float, end_s: float) -> None:
    """A guest that gets half of its CPU demand takes twice the time, and is seen to lack."""
    asked = requests([0.0], 600.0, [100.0, 1000.0])
    run = KernelRun(small_center(), asked, StrategyDecider(own_amounts(cpu)), span_s=3600.0)
    while run.state.phase[0] != GuestPhase.RUNNING:
        run.step()
    began_s = run.state.now_s
    while run.state.now_s < 400.0:
        run.step()
    assert run.monitoring.held[0, 0] == cpu
    assert run.monitoring.used.sum(axis=0)[0] == cpu
    assert run.monitoring.lacking_vms == int(cpu < 100.0)
    while run.state.phase[0] != GuestPhase.ENDED:
        run.step()
    assert run.state.now_s - began_s == pytest.approx(end_s)


def test_shares_of_market_strategies_slow_no_guest() -> None:
    """Only what a strategy states itself is enforced."""
    asked = requests([0.0], 600.0, [100.0, 1000.0])
    entry = replace(own_amounts(10.0), allocates=Allocation.SHARES)
    run = KernelRun(small_center(), asked, StrategyDecider(entry), span_s=1200.0)
    assert run.run().last("ended") == 1


def test_an_amount_that_rises_takes_effect_at_once() -> None:
    """Half of the work at half the pace, the rest at the full pace; nothing is lost between."""
    asked = requests([0.0], 600.0, [100.0, 1000.0])

    def rising(snapshot: Snapshot) -> Any:
        given = np.array(snapshot.vms.cap)
        given[:, 0] = 50.0 if snapshot.now_s < 600.0 else 100.0
        return given

    entry = own_amounts(0.0, allocations=rising)
    run = KernelRun(small_center(), asked, StrategyDecider(entry), span_s=3600.0)
    while run.state.phase[0] != GuestPhase.RUNNING:
        run.step()
    began_s = run.state.now_s
    slow_s = 600.0 - began_s
    while run.state.phase[0] != GuestPhase.ENDED:
        run.step()
    assert run.state.now_s == pytest.approx(600.0 + 600.0 - slow_s / 2)


def test_a_wish_brings_an_application_to_its_number_of_vms() -> None:
    """Spare VMs arrive for it, the newest end, and what it can't have counts as refused."""
    count = 6
    asked = requests(
        np.zeros(count),
        np.inf,
        [100.0, 1000.0],
        owner=np.array([0, 0, 0, 0, 7, 7]),
        spare=np.array([False, False, True, True, False, True]),
    )
    wished = {120.0: 3, 300.0: 9, 600.0: 1}

    def wishes(snapshot: Snapshot) -> tuple[Scale, ...]:
        number = wished.get(snapshot.now_s)
        if number is None:
            return ()
        return (Scale(application=0, replicas=number, reason="its load has changed"),)

    run = KernelRun(
        small_center(),
        asked,
        StrategyDecider(own_amounts(100.0, wishes=wishes)),
        span_s=1200.0,
    )
    alive: dict[float, list[int]] = {}
    while (batch := run.step()) is not None:
        if batch.kind is EventKind.MONITORING:
            alive[batch.at_s] = np.flatnonzero(run.state.phase == GuestPhase.RUNNING).tolist()
        check_conservation(run.state)
    assert alive[60.0 * 2] == [0, 1, 4]
    assert alive[60.0 * 4] == [0, 1, 2, 4]
    assert run.state.waited_s[2] == 60.0, "it waits from the wish to the next period"
    assert alive[60.0 * 8] == [0, 1, 2, 3, 4]
    assert alive[60.0 * 12] == [0, 4]
    totals = run.operations.totals
    assert (totals.deploys, totals.terminations, totals.refused) == (5, 3, 1)


def test_hosts_of_another_width_are_reported() -> None:
    """A data centre must have a capacity for each resource of the requests."""
    center = DataCenter(hosts=tree_of_hosts((2,), [1.0]))
    with pytest.raises(ValueError, match=r"each of cpu, memory \(got 1 amounts\)"):
        KernelRun(center, random_requests(1, 3), StrategyDecider(STRATEGIES["pack"]), span_s=1.0)
