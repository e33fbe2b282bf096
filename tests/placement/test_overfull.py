"""Overfull hosts: every strategy moves VMs away when floors exceed a host, whatever they bid."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from merkatd.cluster import Floats, HostState, Ints, Migrate, Snapshot
from merkatd.placement import STRATEGIES, strategy_named
from merkatd.placement.tabu.paper import MarketSettings
from merkatd.placement.tabu.tabu import Objective, TabuSettings
from tests.clouds import cloud, hosts_table, vms_table
from tests.lengths import shorten

CHOICES: dict[str, tuple[str, Any]] = {
    "tabu": ("tabu", TabuSettings()),
    "tabu by error": ("tabu", TabuSettings(objective=Objective.ERROR)),
    "tabu, few": ("tabu", TabuSettings(m_max_part=0.0, m_max_least=1)),
    "paper": ("paper", MarketSettings()),
    "paper, few": ("paper", MarketSettings(m_max_part=0.0, m_max_least=1)),
}


def tight(seed: int) -> Snapshot:
    """Return a few hosts, some overfull; most VMs bid nothing, some may not move or are held."""
    rng = np.random.default_rng(seed)
    hosts = int(rng.integers(2, 6))
    vms = int(rng.integers(2, 24))
    floor = np.stack([np.zeros(vms), np.round(rng.uniform(0.0, 4000.0, vms))], axis=1)
    bid = rng.lognormal(0.0, 1.0, (vms, 2)) * (rng.random((vms, 1)) < rng.choice([0.0, 0.3]))
    state = rng.choice([int(HostState.ON), int(HostState.DRAINED)], hosts, p=[0.9, 0.1])
    return cloud(
        hosts_table(np.tile([400.0, 8192.0], (hosts, 1)), state=state),
        vms_table(
            rng.integers(0, hosts, vms),
            bid,
            floor + np.array([200.0, 1000.0]),
            floor=floor,
            movable=rng.random(vms) < 0.8,
            moved_at_s=np.where(rng.random(vms) < 0.2, 0.0, np.nan),
        ),
    )


def excess(snapshot: Snapshot, host: Ints) -> Floats:
    """Return [hosts]: the MiB by which floors exceed each host."""
    floors = np.bincount(host, snapshot.vms.floor[:, 1], len(snapshot.hosts))
    over: Floats = np.maximum(floors - snapshot.hosts.capacity[:, 1], 0.0)
    return over


def can_be_relieved(snapshot: Snapshot) -> bool:
    """Return whether one VM may leave an overfull host for a host where its floor fits."""
    vms, host = snapshot.vms, snapshot.vms.host
    floors = np.bincount(host, vms.floor[:, 1], len(snapshot.hosts))
    free = np.where(
        snapshot.hosts.state == HostState.ON, snapshot.hosts.capacity[:, 1] - floors, -np.inf
    )
    leaving = np.flatnonzero(
        (excess(snapshot, host)[host] > 0) & vms.movable & (vms.floor[:, 1] > 0)
    )
    return any((np.delete(free, host[vm]) >= vms.floor[vm, 1]).any() for vm in leaving.tolist())


def sent(snapshot: Snapshot, name: str, settings: Any = None) -> Ints:
    """Return [vms]: the host of each VM once the migrations that wait for no other are done."""
    plan = strategy_named(name).decide(snapshot, settings=settings).plan
    host = snapshot.vms.host.copy()
    moves = {step.id for step in plan.of(Migrate)}
    for step in plan.of(Migrate):
        if not moves & set(step.after):
            host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return host


@pytest.mark.parametrize("choice", CHOICES)
@settings(max_examples=shorten(100, 25))
@given(seed=st.integers(0, 10**6))
@example(seed=1264)
def test_an_overfull_host_is_relieved_whenever_a_move_can(choice: str, seed: int) -> None:
    """Overfull hosts lose VMs without bids, with held VMs, and with one migration allowed."""
    snapshot = tight(seed)
    name, settings = CHOICES[choice]
    before = excess(snapshot, snapshot.vms.host)
    after = excess(snapshot, sent(snapshot, name, settings))
    assert (after <= before).all()
    assert not can_be_relieved(snapshot) or after.sum() < before.sum()


@pytest.mark.parametrize("name", STRATEGIES)
def test_floors_of_8200_on_a_host_of_8192_are_relieved(name: str) -> None:
    """The smallest sufficient VM leaves, and the reason names the excess."""
    floor = np.array([[0.0, 4100.0], [0.0, 4000.0], [0.0, 100.0]])
    snapshot = cloud(
        hosts_table(np.tile([400.0, 8192.0], (2, 1))),
        vms_table([0, 0, 0], np.zeros((3, 2)), floor + 100.0, floor=floor),
    )
    plan = strategy_named(name).decide(snapshot).plan.of(Migrate)
    assert excess(snapshot, sent(snapshot, name)).sum() == 0
    if name != "groups":
        [step] = plan
        assert (step.vm, step.source, step.host) == (2, 0, 1)
        assert step.reason == "the floors on host0 exceed its capacity by 8 MiB of memory"


@pytest.mark.parametrize("name", ["paper", "tabu"])
def test_a_vm_without_a_floor_is_never_moved_as_relief(name: str) -> None:
    """If the VMs with floors may not move, nothing is migrated."""
    floor = np.array([[0.0, 5000.0], [0.0, 5000.0], [0.0, 0.0]])
    snapshot = cloud(
        hosts_table(np.tile([400.0, 8192.0], (2, 1))),
        vms_table(
            [0, 0, 0],
            np.zeros((3, 2)),
            floor + 100.0,
            floor=floor,
            movable=np.array([False, False, True]),
        ),
    )
    assert len(strategy_named(name).decide(snapshot).plan) == 0
