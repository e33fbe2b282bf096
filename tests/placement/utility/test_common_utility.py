"""The common utility: the paper's first experiment, and what holds for all applications."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.placement.utility.common_utility import common_utility, divide_power
from merkatd.placement.utility.powers.power_curves import LEAST_UTILITY, PowerCurves, job_curves
from merkatd.placement.utility.powers.sampled_utility import (
    between,
    sampled_powers,
    sampled_utilities,
)
from tests.placement.utility.made_curves import made_curves

SEEDS = st.integers(0, 2**32 - 1)
POWER = 1000.0
"""The power of the node of the paper's first experiment; speeds and works in its units."""
SCENARIOS = {
    ("1", "start J2"): (17.0, (500.0, 500.0), (0.696, 0.696), (0.7, 0.7)),
    ("1", "J1 alone"): (17.0, (1000.0, 0.0), (0.700, 0.6875), (0.7, 0.7)),
    ("2", "start J2"): (13.0, (500.0, 500.0), (0.658, 0.658), (0.65, 0.65)),
    ("2", "J1 alone"): (13.0, (1000.0, 0.0), (0.700, 0.583), (0.7, 0.6)),
}
"""By scenario and choice: the goal of J2, the speeds in the second cycle, the utilities, and what
the paper prints for them."""


def first_experiment(goal_s: float, speeds: tuple[float, float]) -> PowerCurves:
    """Return the curves of J1 and J2 at 2 s, after J1 ran alone for 1 s and both for 1 s."""
    left = np.array([3000.0, 2000.0]) - speeds
    return job_curves(
        left,
        left / np.array([1000.0, 500.0]),
        np.array([20.0, goal_s]) - 2.0,
        np.array([20.0, goal_s - 1.0]),
    )


@pytest.mark.parametrize("case", SCENARIOS)
def test_the_first_experiment_of_the_paper(case: tuple[str, str]) -> None:
    """The exact utilities, and the sampled ones within the rounding of the printed ones."""
    goal_s, speeds, exact, printed = SCENARIOS[case]
    curves = first_experiment(goal_s, speeds)
    assert divide_power(curves, POWER).utility == pytest.approx(exact, abs=5e-4)
    assert sampled_utilities(curves, POWER) == pytest.approx(printed, abs=0.02)


def test_the_printed_examples_of_values_between_samples() -> None:
    """Figure 3 to the unit; Figure 4, whose ratios the paper rounds, within 6 %."""
    free = between(np.array([8.0, 4.0]), np.array([512.0, 64.0]), 150.0, constrained=False)
    assert np.floor(free).tolist() == [131, 18]
    held = between(np.array([125.0, 25.0]), np.array([1000.0, 900.0]), 1180.0, constrained=True)
    assert held == pytest.approx([974, 195], rel=0.06)


@given(SEEDS, st.integers(0, 12), st.integers(0, 4), st.floats(0, 1.2))
def test_all_power_is_used_and_all_have_the_same_or_their_greatest_utility(
    seed: int, jobs: int, services: int, part: float
) -> None:
    """No more than the power, and no less unless all have their greatest utility."""
    curves = made_curves(np.random.default_rng(seed), jobs, services)
    greatest = curves.power(np.inf)
    divided = divide_power(curves, part * float(greatest.sum()))
    assert divided.power.sum() == pytest.approx(min(part, 1.0) * greatest.sum(), rel=1e-9)
    assert (divided.power <= greatest * (1 + 1e-9)).all()
    if divided.common > LEAST_UTILITY:
        wanted = np.minimum(divided.common, curves.most_utility)
        assert divided.utility == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@given(SEEDS, st.integers(1, 12), st.floats(0, 1), st.floats(0, 1))
def test_more_power_is_never_worse(seed: int, jobs: int, one: float, other: float) -> None:
    """The common utility grows with the power."""
    curves = made_curves(np.random.default_rng(seed), jobs, 2)
    less, more = sorted((one, other))
    total = float(curves.power(np.inf).sum())
    assert common_utility(curves, less * total) <= common_utility(curves, more * total) + 1e-9


@given(SEEDS, st.integers(2, 12), st.floats(0.05, 0.95))
def test_no_other_division_has_a_greater_least_utility(seed: int, jobs: int, part: float) -> None:
    """Power moved from one job to another lowers the least utility, or changes only higher ones."""
    random = np.random.default_rng(seed)
    curves = made_curves(random, jobs, 0)
    divided = divide_power(curves, part * float(curves.power(np.inf).sum()))
    giver, taker = random.choice(jobs, 2, replace=False)
    moved = divided.power.copy()
    amount = random.uniform(0, 1) * moved[giver]
    moved[giver] -= amount
    moved[taker] += amount
    assert sorted(curves.utility(moved)) <= sorted(divided.utility + 1e-6)


@given(SEEDS, st.integers(1, 12), st.floats(0.05, 0.95))
def test_the_sampled_form_stays_in_the_range_of_its_samples(
    seed: int, jobs: int, part: float
) -> None:
    """With ever more samples it becomes the exact form."""
    curves = made_curves(np.random.default_rng(seed), jobs, 0)
    power = part * float(curves.power(np.inf).sum())
    exact = divide_power(curves, power)
    around = exact.common + np.array([-1e-3, 1e-3])
    samples = np.array([LEAST_UTILITY, *around, max(1.0, around[-1] + 1)])
    near = sampled_powers(curves, power, samples)
    low, high = (curves.power(float(edge)) for edge in around)
    assert (near >= low - 1e-6).all()
    assert (near <= high + 1e-6).all()


def test_without_power_and_without_applications() -> None:
    """No application gets any, and nothing fails."""
    none = job_curves(*(np.zeros(0) for _ in range(4)))
    assert common_utility(none, 100.0) == LEAST_UTILITY
    assert len(divide_power(none, 100.0).power) == 0
    curves = made_curves(np.random.default_rng(1), 3, 2)
    assert divide_power(curves, 0.0).power.tolist() == [0.0] * 5
    assert (divide_power(curves, 0.0).utility <= LEAST_UTILITY).all()


def test_services_that_cannot_answer_share_what_there_is() -> None:
    """A power below what the requests take goes to all by the same part."""
    curves = made_curves(np.random.default_rng(2), 0, 4)
    divided = divide_power(curves, float(curves.base.sum()) / 2)
    assert divided.power == pytest.approx(curves.base / 2, rel=1e-4)
    assert divided.utility.tolist() == [LEAST_UTILITY] * 4


def test_a_job_that_missed_its_goal_long_ago() -> None:
    """It keeps its own utility, lower than any other, and the rest is divided as without it."""
    late = job_curves(*(np.array([value]) for value in (1000.0, 10.0, -1e7, 1.0)))
    others = made_curves(np.random.default_rng(3), 4, 0)
    power = 0.5 * float(others.power(np.inf).sum())
    divided = divide_power(late.joined(others), power + 100.0)
    assert divided.power[0] == pytest.approx(100.0)
    assert divided.power[1:] == pytest.approx(divide_power(others, power).power)
