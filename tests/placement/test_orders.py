"""Mandatory steps never wait for optional ones: new VMs start, and drained hosts empty."""

from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Decision, Deploy, HostState, Migrate, Snapshot, VmState
from merkatd.placement import strategy_named
from merkatd.placement.base.least_load import evacuate_to_least_load, start_market
from merkatd.placement.tabu.tabu import Objective, TabuSettings
from tests.clouds import cloud, hosts_table, placed, vms_table
from tests.lengths import shorten

CLOUDS = shorten(400, 40)
WAITS = 274
"""In this cloud a new VM finds room only after all other steps."""

STRATEGIES: dict[str, tuple[str, Any]] = {
    "tabu": ("tabu", None),
    "tabu-error": ("tabu", TabuSettings(objective=Objective.ERROR)),
    "paper": ("paper", None),
    "groups": ("groups", None),
}


def tight(seed: int, *, new: int = 0, drained: bool = False) -> Snapshot:
    """Return hosts that floors nearly fill, with new VMs, and optionally the last host drained."""
    rng = np.random.default_rng(seed)
    hosts, per_host = int(rng.integers(2, 5)), int(rng.integers(2, 5))
    host = np.repeat(np.arange(hosts), per_host)
    floor = rng.dirichlet(np.full(per_host, 1.0), hosts).ravel()
    floor *= np.repeat(rng.uniform(300.0, 1000.0, hosts), per_host)
    if drained:
        floor[host == hosts - 1] *= 0.3
    host = np.append(host, np.full(new, -1))
    floor = np.append(floor, rng.uniform(20.0, 300.0, new))
    vms = len(host)
    cap = np.stack([rng.uniform(50.0, 400.0, vms), floor + rng.uniform(0.0, 600.0, vms)], axis=1)
    state = np.full(hosts, int(HostState.ON))
    state[-1] = int(HostState.DRAINED) if drained else state[-1]
    capacity = np.stack([rng.uniform(150.0, 400.0, hosts), np.full(hosts, 1000.0)], axis=1)
    return cloud(
        hosts_table(capacity, state=state),
        vms_table(
            host,
            rng.lognormal(0.0, 1.0, (vms, 2)),
            cap,
            floor=np.stack([np.zeros(vms), floor], axis=1),
            state=np.where(host < 0, int(VmState.PENDING), int(VmState.RUNNING)),
        ),
    )


def decided(snapshot: Snapshot, choice: str) -> Decision:
    """Return the decision of the strategy."""
    name, settings = STRATEGIES[choice]
    strategy = strategy_named(name)
    chosen = strategy.defaults if settings is None else settings
    return strategy.decide(snapshot, chosen)


@pytest.mark.parametrize("choice", STRATEGIES)
def test_a_new_vm_starts_if_a_host_has_room(choice: str) -> None:
    """If a host has room for a new VM while all others stay, the plan starts the VM."""
    counted = 0
    for seed in range(CLOUDS):
        snapshot = tight(seed, new=2)
        started = start_market(snapshot, 0).started
        due = snapshot.vms.id[(snapshot.vms.host < 0) & (started >= 0)].tolist()
        steps = decided(snapshot, choice).plan.of(Deploy)
        assert {step.vm for step in steps} >= set(due), seed
        counted += len(due)
    assert counted > CLOUDS


@pytest.mark.parametrize("choice", STRATEGIES)
def test_a_drained_host_loses_a_vm_in_each_period_if_one_can_move(choice: str) -> None:
    """If a VM of a drained host fits elsewhere while all others stay, the plan moves a VM away."""
    counted = 0
    for seed in range(CLOUDS):
        snapshot = tight(seed, drained=True)
        game = start_market(snapshot, 0)
        board = game.fresh_board()
        evacuate_to_least_load(game, board, 1)
        if (board.place == game.view.place).all():
            continue
        counted += 1
        last = snapshot.hosts.id[-1]
        moves = decided(snapshot, choice).plan.of(Migrate)
        assert any(step.source == last for step in moves), seed
    assert counted > CLOUDS // 4


@pytest.mark.parametrize("choice", STRATEGIES)
def test_no_new_vm_waits_beside_permanent_room(choice: str) -> None:
    """If a host has room for a new VM before and after the plan, the plan starts the VM there."""
    counted = 0
    for seed in (*range(CLOUDS), WAITS):
        snapshot = tight(seed, new=4)
        after = placed(snapshot, decided(snapshot, choice))
        floor, each = snapshot.vms.floor[:, 1], np.arange(len(snapshot.hosts))[:, np.newaxis]
        meanwhile = (after == each) | (snapshot.vms.host == each)
        free = snapshot.hosts.capacity[:, 1] - meanwhile @ floor
        waiting = np.flatnonzero(after < 0)
        assert (floor[waiting] > free.max()).all(), seed
        counted += len(waiting)
    assert counted > CLOUDS // 10


def test_the_reason_of_a_waiting_new_vm_names_the_missing_floor() -> None:
    """The reason of a new VM that waits names its floor and never an exchange of places."""
    named = 0
    for seed in range(CLOUDS // 2):
        snapshot = tight(seed, new=4)
        decision = decided(snapshot, "groups")
        for vm in np.flatnonzero(placed(snapshot, decision) < 0).tolist():
            assert "change places" not in decision.reasons[vm]
            named += "as its floor" in decision.reasons[vm]
    assert named > CLOUDS // 20
