"""Small systems: the decision against all placements, and the compiled forms against plain ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Floats
from merkatd.market.market_view import market_view
from merkatd.placement.utility.common_utility import common_utility
from merkatd.placement.utility.cycle_demands import read_demands
from merkatd.placement.utility.job_progress import JobStages, cycle_needs
from merkatd.placement.utility.powers.job_levels import WORST, Demands, level_of_jobs
from merkatd.placement.utility.powers.power_curves import LEAST_UTILITY
from merkatd.placement.utility.utility_strategy import UtilitySettings, decide_market
from tests.lengths import shorten
from tests.placement.conformance.filled_clouds import filled_cloud
from tests.placement.utility.made_curves import made_curves
from tests.placement.utility.small_systems import (
    CYCLE_S,
    NEAR,
    all_places,
    changes_of,
    market_of,
    small_system,
    utilities_of,
)

SETTINGS = UtilitySettings(
    cycle_s=CYCLE_S, exchange_s=0.0, least_gain=NEAR, late_last=False, hold_s=0.0, most_moves=100
)


def outcome(seed: int) -> tuple[float, int]:
    """Return how far the lowest utility is from the best one, and the changes too many."""
    snapshot = small_system(seed)
    known, market = all_places(snapshot), market_of(snapshot)
    place = decide_market(snapshot, 0, SETTINGS, np.zeros(0, dtype=np.int64)).orderly.place
    utilities = utilities_of(market, place)
    changes = changes_of(market.view.place, place)
    return known.lowest - float(utilities[0]), changes - known.fewest_changes(utilities)


def test_the_lowest_utility_is_nearly_the_best_of_all_placements() -> None:
    """Within 0.001 in at least 95 of 100 systems, with rarely more than a change too many."""
    found = [outcome(seed) for seed in range(shorten(500, 5))]
    distance, changes = np.array(found).T
    assert (distance <= NEAR).mean() >= 0.95
    assert (changes <= 1).mean() >= 0.95


def plain(values: Floats, count: int) -> Demands:
    """Return the demands of jobs alone."""
    left, reach, span = values
    none, rows = np.zeros(0), np.zeros(0, dtype=np.int64)
    late = np.zeros(count, dtype=bool)
    return Demands(left, reach, span, left, late, none, none, none, rows, rows, none, none, rows)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0, 1.2))
def test_the_compiled_level_is_the_common_utility(seed: int, jobs: int, part: float) -> None:
    """The same number as the plain form."""
    curves = made_curves(np.random.default_rng(seed), jobs, 0)
    power = part * float(curves.power(np.inf).sum())
    table = plain(np.stack([curves.scale, curves.reach, curves.span]), jobs)
    level = level_of_jobs(table, curves.most_utility, False, power)
    assert level == pytest.approx(common_utility(curves, power), rel=1e-6, abs=1e-6)
    assert WORST == LEAST_UTILITY


@pytest.mark.parametrize("seed", range(20))
def test_the_needs_of_all_jobs_are_those_of_each(seed: int) -> None:
    """What is computed for all at once is what `job_progress` says of one."""
    snapshot = filled_cloud(seed)
    view = market_view(snapshot, 0)
    jobs = read_demands(snapshot, view, np.zeros(0, dtype=np.int64), 600.0, 0).jobs
    for row, number in enumerate(jobs.number.tolist()):
        at = int(np.flatnonzero(snapshot.jobs.application == number)[0])
        own, done = snapshot.stages.job == at, float(snapshot.jobs.work_done[at])
        stages = JobStages(
            work=snapshot.stages.work[own],
            least_speed=snapshot.stages.least_speed[own],
            greatest_speed=snapshot.stages.greatest_speed[own],
            memory_mib=snapshot.stages.memory_mib[own],
        )
        vms = int((snapshot.vms.application[view.vms] == number).sum())
        needs = cycle_needs(stages, done, 600.0)
        assert jobs.left[row] == pytest.approx(stages.left(done).sum())
        assert jobs.best_s[row] == pytest.approx(stages.best_s(done))
        assert jobs.greatest_speed[row] * vms == pytest.approx(needs.greatest_speed)
        assert jobs.least_speed[row] * vms == pytest.approx(needs.least_speed)
        assert jobs.memory_mib[row] * vms == pytest.approx(needs.memory_mib)
