"""Halves of plans: what is sent in a period makes no cloud worse, whatever has to wait."""

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
    return begun(decision.plan.of(Migrate))


def begun(moves: Sequence[Migrate]) -> list[Migrate]:
    """The same of these migrations."""
    known = {step.id for step in moves}
    return [step for step in moves if not known & set(step.after)]


def after(snapshot: Snapshot, steps: Sequence[Migrate]) -> Ints:
    """[vms]: the host of each VM once these migrations have been made."""
    host = snapshot.vms.host.copy()
    for step in steps:
        host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return host


def worse(snapshot: Snapshot, host: Ints, objective: Objective) -> bool:
    """Whether a market is served worse than before, by what the strategy makes small."""
    old, new = (harm(snapshot, place, objective) for place in (snapshot.vms.host, host))
    return bool((new > old * (1 + 1e-9) + 1e-9).any())


def harm(snapshot: Snapshot, host: Ints, objective: Objective) -> Floats:
    """[markets]: what VMs lack in all, or the largest lack."""
    found = assess_placement(snapshot, host)
    if objective is Objective.SHORTFALL:
        return found.shortfall
    lack = np.maximum(found.first - found.shares, 0.0)
    part = np.divide(lack, found.first, out=np.zeros_like(lack), where=found.first > 0)
    return np.array([part.max(initial=0.0)])


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


def test_what_paper_sends_makes_no_tight_cloud_worse() -> None:
    """By the largest error, as far as it is a lack."""
    plans = bad = 0
    for seed in range(CLOUDS // 2):
        snapshot = tight(seed)
        steps = sent(paper(snapshot, MarketSettings(e_max=0.0), {}, RNG))
        plans += bool(steps)
        bad += worse(snapshot, after(snapshot, steps), Objective.ERROR)
    assert plans > CLOUDS / 20
    assert bad == 0


@pytest.mark.parametrize("objective", Objective)
def test_a_random_wish_of_any_strategy_is_begun_only_as_far_as_it_does_no_harm(
    objective: Objective,
) -> None:
    """Nothing is begun that is worse than the present and than the whole wish."""
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
def test_whatever_of_a_wave_is_refused_the_rest_does_no_harm(objective: Objective) -> None:
    """Every part of each wave, and no more waves once something was refused."""
    number = LARGEST_LACK if objective is Objective.ERROR else SUM_OF_SHORTFALLS
    tried = 0
    for seed in range(CLOUDS // 4):
        snapshot, rng = tight(seed), np.random.default_rng(seed)
        decision = tabu(snapshot, TabuSettings(objective=objective), {}, RNG)
        game, steps = start_market(snapshot, 0), sent(decision)
        moves = {snapshot.vm_row(step.vm): snapshot.host_row(step.host) for step in steps}
        remaining = Remaining(
            game.view, game.stakes, number, game.view.place, moves, after(snapshot, steps)
        )
        done: list[Migrate] = []
        while wave := remaining.wave():
            of = [step for step in steps if snapshot.vm_row(step.vm) in wave]
            for part in parts(of):
                assert not worse(snapshot, after(snapshot, [*done, *part]), objective)
                tried += 1
            for step in of:
                row = snapshot.vm_row(step.vm)
                if rng.random() < 0.5:
                    remaining.made(row)
                    done.append(step)
                else:
                    remaining.drop(row)
    assert tried > CLOUDS / 10
