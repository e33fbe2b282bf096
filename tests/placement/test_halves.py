"""Partial plans: the steps sent in a period make no cloud worse, whatever has to wait."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from merkatd.cluster import Decision, Floats, Ints, Migrate, Snapshot
from merkatd.market.error import assess_placement
from merkatd.placement.base.host_shares import LARGEST_LACK, SUM_OF_SHORTFALLS
from merkatd.placement.base.least_load import start_market
from merkatd.placement.market.plan_halves import Remaining, without_harmful_halves
from merkatd.placement.tabu.paper import MarketSettings, paper
from merkatd.placement.tabu.tabu import Objective, TabuSettings, tabu
from tests.clouds import cloud, hosts_table, vms_table
from tests.lengths import shorten

RNG = np.random.default_rng(0)
CLOUDS = shorten(400, 50)


def tight(seed: int) -> Snapshot:
    """Return a few hosts that floors nearly fill, so that VMs must wait for each other."""
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
    """Return the migrations sent in this period: those that wait for no other migration."""
    return begun(decision.plan.of(Migrate))


def begun(moves: Sequence[Migrate]) -> list[Migrate]:
    """Return the migrations that wait for no other migration in the list."""
    known = {step.id for step in moves}
    return [step for step in moves if not known & set(step.after)]


def host_after(snapshot: Snapshot, steps: Sequence[Migrate]) -> Ints:
    """Return [vms]: the host of each VM once these migrations are done."""
    host = snapshot.vms.host.copy()
    for step in steps:
        host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return host


def worse(snapshot: Snapshot, host: Ints, objective: Objective) -> bool:
    """Return whether some market is worse off than before by the strategy's objective."""
    old, new = (harm(snapshot, place, objective) for place in (snapshot.vms.host, host))
    return bool((new > old * (1 + 1e-9) + 1e-9).any())


def harm(snapshot: Snapshot, host: Ints, objective: Objective) -> Floats:
    """Return [markets]: the total shortfall of the VMs, or the largest lack."""
    assessment = assess_placement(snapshot, host)
    if objective is Objective.SHORTFALL:
        return assessment.shortfall
    lack = np.maximum(assessment.first - assessment.shares, 0.0)
    part = np.divide(lack, assessment.first, out=np.zeros_like(lack), where=assessment.first > 0)
    return np.array([part.max(initial=0.0)])


def parts(steps: list[Migrate]) -> Iterator[list[Migrate]]:
    """Yield every subset of these steps that refusals can leave."""
    for size in range(len(steps) + 1):
        yield from map(list, itertools.combinations(steps, size))


@pytest.mark.parametrize("objective", Objective)
def test_sent_steps_make_no_tight_cloud_worse(objective: Objective) -> None:
    """The steps sent by `tabu` do no harm, even if the migrations that wait are never sent."""
    settings = TabuSettings(objective=objective)
    halves = bad = 0
    for seed in range(CLOUDS):
        snapshot = tight(seed)
        decision = tabu(snapshot, settings, {}, RNG)
        steps = sent(decision)
        halves += len(steps) < len(decision.plan.of(Migrate))
        bad += worse(snapshot, host_after(snapshot, steps), objective)
    assert halves > CLOUDS / 100
    assert bad == 0


def test_steps_sent_by_paper_make_no_tight_cloud_worse() -> None:
    """The steps sent by `paper` never increase the largest error of a VM that lacks something."""
    plans = bad = 0
    for seed in range(CLOUDS // 2):
        snapshot = tight(seed)
        steps = sent(paper(snapshot, MarketSettings(e_max=0.0), {}, RNG))
        plans += bool(steps)
        bad += worse(snapshot, host_after(snapshot, steps), Objective.ERROR)
    assert plans > CLOUDS / 20
    assert bad == 0


def test_a_new_vm_that_finds_no_room_leaves_the_gains_of_others() -> None:
    """A new VM whose wanted host is full starts elsewhere, and a gain beside it remains."""
    memory = np.array([80.0, 20.0, 20.0, 30.0])
    snapshot = cloud(
        hosts_table(np.full((3, 2), 100.0)),
        vms_table(
            [0, 1, 1, -1],
            np.ones((4, 2)),
            np.full((4, 2), 100.0),
            floor=np.stack([np.zeros(4), memory], axis=1),
        ),
    )
    problem = start_market(snapshot, 0)
    orderly = without_harmful_halves(problem, np.array([0, 1, 2, 0]), SUM_OF_SHORTFALLS)
    assert orderly.place.tolist() == [0, 1, 2, problem.started[3]]
    assert orderly.place[3] != 0


@pytest.mark.parametrize("objective", Objective)
def test_a_random_placement_starts_only_as_far_as_it_does_no_harm(
    objective: Objective,
) -> None:
    """The started moves never leave a state worse than both the present and the full placement."""
    number = LARGEST_LACK if objective is Objective.ERROR else SUM_OF_SHORTFALLS
    changed = 0
    for seed in range(CLOUDS // 2):
        snapshot, rng = tight(seed), np.random.default_rng(seed)
        game = start_market(snapshot, 0)
        wanted = game.view.place.copy()
        some = rng.random(len(wanted)) < 0.5
        wanted[some] = rng.integers(0, len(game.view.hosts), int(some.sum()))
        orderly = without_harmful_halves(game, wanted, number)
        begun = snapshot.vms.host.copy()
        for vm in orderly.moves:
            if not orderly.after.get(vm):
                begun[game.view.vms[vm]] = orderly.place[vm]
        changed += bool((begun != snapshot.vms.host).any())
        if not worse(snapshot, wanted, objective):
            assert not worse(snapshot, begun, objective)
    assert changed > CLOUDS / 20


@pytest.mark.parametrize("objective", Objective)
def test_refused_steps_of_a_wave_do_no_harm(objective: Objective) -> None:
    """Any subset of a wave does no harm, and no wave starts after a refusal."""
    number = LARGEST_LACK if objective is Objective.ERROR else SUM_OF_SHORTFALLS
    tried = 0
    for seed in range(CLOUDS // 4):
        snapshot, rng = tight(seed), np.random.default_rng(seed)
        decision = tabu(snapshot, TabuSettings(objective=objective), {}, RNG)
        game, steps = start_market(snapshot, 0), sent(decision)
        moves = {snapshot.vm_row(step.vm): snapshot.host_row(step.host) for step in steps}
        remaining = Remaining(
            game.view, game.stakes, number, game.view.place, moves, host_after(snapshot, steps)
        )
        done: list[Migrate] = []
        while wave := remaining.wave():
            of = [step for step in steps if snapshot.vm_row(step.vm) in wave]
            for part in parts(of):
                assert not worse(snapshot, host_after(snapshot, [*done, *part]), objective)
                tried += 1
            for step in of:
                row = snapshot.vm_row(step.vm)
                if rng.random() < 0.5:
                    remaining.made(row)
                    done.append(step)
                else:
                    remaining.drop(row)
    assert tried > CLOUDS / 10
