"""Halves of plans: what is sent in a period makes no cloud worse, whatever has to wait."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from merkatd.cluster import Decision, Ints, Migrate, Snapshot
from merkatd.market.assess import assess
from merkatd.placement.tabu import Objective, TabuSettings, tabu
from tests.clouds import cloud, hosts_table, vms_table

RNG = np.random.default_rng(0)
CLOUDS = 400


def tight(seed: int) -> Snapshot:
    """Few hosts whose memory the floors nearly fill, so that VMs must wait for each other."""
    rng = np.random.default_rng(seed)
    hosts, per_host = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    host = np.repeat(np.arange(hosts), per_host)
    vms = len(host)
    floor = rng.dirichlet(np.full(per_host, 3.0), hosts).ravel() * rng.uniform(600.0, 1000.0)
    cap = np.stack([rng.uniform(50.0, 400.0, vms), floor + rng.uniform(0.0, 600.0, vms)], axis=1)
    return cloud(
        hosts_table(np.stack([rng.uniform(150.0, 400.0, hosts), np.full(hosts, 1000.0)], axis=1)),
        vms_table(
            host,
            rng.lognormal(0.0, 1.0, (vms, 2)),
            cap,
            floor=np.stack([np.zeros(vms), floor], axis=1),
        ),
    )


def sent(decision: Decision) -> list[Migrate]:
    """The migrations that are sent in this period: they wait for no other migration."""
    moves = decision.plan.of(Migrate)
    known = {step.id for step in moves}
    return [step for step in moves if not known & set(step.after)]


def after(snapshot: Snapshot, steps: list[Migrate]) -> Ints:
    """[vms]: the host of each VM once these migrations have been made."""
    host = snapshot.vms.host.copy()
    for step in steps:
        host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return host


def worse(snapshot: Snapshot, host: Ints, objective: Objective) -> bool:
    """Whether a market is served worse than before, by what the strategy makes small."""
    was, now = assess(snapshot, snapshot.vms.host), assess(snapshot, host)
    if objective is Objective.ERROR:
        old, new = was.largest_error, now.largest_error
    else:
        old, new = was.shortfall, now.shortfall
    return bool((new > old * (1 + 1e-9) + 1e-9).any())


def parts(steps: list[Migrate]) -> Iterator[list[Migrate]]:
    """Every part that refusals can leave of these steps."""
    for size in range(len(steps) + 1):
        yield from map(list, itertools.combinations(steps, size))


@pytest.mark.parametrize("objective", Objective)
def test_what_is_sent_makes_no_tight_cloud_worse(objective: Objective) -> None:
    """A migration that waits for another one is not sent in this period, and perhaps never."""
    settings = TabuSettings(objective=objective)
    halves = bad = 0
    for seed in range(CLOUDS):
        snapshot = tight(seed)
        decision = tabu(snapshot, settings, {}, RNG)
        steps = sent(decision)
        halves += len(steps) < len(decision.plan.of(Migrate))
        bad += worse(snapshot, after(snapshot, steps), objective)
    assert halves > CLOUDS / 100
    assert bad == 0
