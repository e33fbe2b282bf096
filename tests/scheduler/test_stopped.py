"""A plan that stops at any point leaves no cloud worse than before."""

import itertools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Migrate, Plan, Snapshot
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from merkatd.placement.base.host_shares import LARGEST_LACK
from merkatd.placement.changes.migration_waves import of_market
from merkatd.placement.tabu.paper import MarketSettings
from merkatd.placement.tabu.tabu import Objective, TabuSettings
from tests.lengths import SOAK
from tests.placement.test_halves import begun, harm, host_after, tight

SEED = int(os.environ.get("MERKAT_SEED", "0"))
CLOUDS = range(SEED, SEED + int(os.environ["MERKAT_SOAK"])) if SOAK else (31, 51, 52, *range(20))
"""In the first clouds two migrations of a wave that share a host do harm."""
CHOICES: dict[str, tuple[str, Any]] = {
    "tabu": ("tabu", TabuSettings()),
    "tabu, no least gain": ("tabu", TabuSettings(least_gain=0.0, load_m_max=2)),
    "tabu by error": ("tabu", TabuSettings(objective=Objective.ERROR, e_max=0.0)),
    "paper": ("paper", MarketSettings(e_max=0.0)),
    "groups": ("groups", None),
}


def stops(
    snapshot: Snapshot, name: str, settings: Any, plan: Plan, rng: np.random.Generator
) -> Iterator[list[Migrate]]:
    """Return partial executions of a plan: any part of each wave."""
    entry = strategy_named(name)
    measure = entry.harm(entry.defaults if settings is None else settings)
    moves = plan.of(Migrate)
    ready = [step for step in begun(moves) if rng.random() < 0.8]  # the others lack memory
    planned = moves if entry.as_planned else ()
    waves = of_market(market_view(snapshot, 0), snapshot, measure, ready, planned)
    done: list[Migrate] = list(waves.first)
    remaining = waves.remaining(done)
    while rows := remaining.wave():
        steps = [waves.step_of(row) for row in rows]
        for size in range(len(steps) + 1):
            for part in itertools.combinations(steps, size):
                yield [*done, *part]
        for row, step in zip(rows, steps, strict=True):
            if rng.random() < 0.7:
                remaining.made(row)
                done.append(step)
            else:
                remaining.drop(row)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_plan_that_stops_at_any_point_leaves_no_cloud_worse(choice: str) -> None:
    """`groups` has another measure: a partial plan may reach the value of the whole plan."""
    name, settings = CHOICES[choice]
    entry = strategy_named(name)
    measure = entry.harm(entry.defaults if settings is None else settings)
    objective = Objective.ERROR if measure == LARGEST_LACK else Objective.SHORTFALL
    several = worse = 0
    for seed in CLOUDS:
        snapshot, rng = tight(seed), np.random.default_rng(seed)
        decision = entry.decide(snapshot, settings=settings)
        several += len(begun(decision.plan.of(Migrate))) > 1
        most = harm(snapshot, snapshot.vms.host, objective)
        if entry.as_planned:
            last = host_after(snapshot, decision.plan.of(Migrate))
            most = np.maximum(most, harm(snapshot, last, objective))
        states = stops(snapshot, name, settings, decision.plan, rng)
        harms = [harm(snapshot, host_after(snapshot, done), objective) for done in states]
        worse += any((damage > most * (1 + 1e-9) + 1e-9).any() for damage in harms)
    assert worse == 0
    assert several > len(CLOUDS) / 20
