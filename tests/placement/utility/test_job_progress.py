"""The progress of jobs: the rest of stages, the needs of a cycle, and its work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.placement.utility.job_progress import (
    NO_NEEDS,
    CycleNeeds,
    JobStages,
    cycle_needs,
    done_after,
)

TWO = JobStages(*(np.array(column) for column in ([600, 300], [20, 50], [200, 100], [512, 2048])))
"""Two stages: work, least and greatest speed, memory."""


@st.composite
def stages(draw: st.DrawFn) -> JobStages:
    """Return up to five stages."""
    count = draw(st.integers(1, 5))
    column = st.lists(st.floats(1, 1000), min_size=count, max_size=count).map(np.array)
    least = st.lists(st.floats(0, 100), min_size=count, max_size=count).map(np.array)
    return JobStages(draw(column), draw(least), draw(column), draw(column))


def test_the_example_in_the_docstring() -> None:
    """100 of the first stage are left; the second begins after half a second."""
    assert TWO.left(500).tolist() == [100, 300]
    assert TWO.best_s(500) == pytest.approx(0.5 + 3)
    assert cycle_needs(TWO, 500, 2.0) == CycleNeeds(50, 200, 2048)
    assert cycle_needs(TWO, 500, 0.5) == CycleNeeds(20, 200, 512)
    assert done_after(TWO, 500, 200, 2.0) == pytest.approx(750)


def test_a_finished_job_needs_nothing() -> None:
    """Also one that reports more work than it had."""
    for done in (900.0, 5000.0):
        assert cycle_needs(TWO, done, 60.0) == NO_NEEDS
        assert TWO.best_s(done) == 0


def test_a_stage_that_may_use_no_cpu_never_ends() -> None:
    """Neither a division by zero nor a second stage that begins."""
    stuck = JobStages(np.array([10.0, 5.0]), np.zeros(2), np.array([0.0, 100.0]), np.ones(2))
    assert stuck.best_s(0) == np.inf
    assert cycle_needs(stuck, 0, 60.0).greatest_speed == 0
    assert done_after(stuck, 3.0, 100, 60.0) == 3.0
    # Once its work is done, the next stage begins.
    assert stuck.best_s(10.0) == pytest.approx(0.05)


def test_a_least_speed_above_the_greatest_counts_as_the_greatest() -> None:
    """A mistake of a tenant's keeps the job from no host."""
    wrong = JobStages(np.array([10.0]), np.array([500.0]), np.array([100.0]), np.ones(1))
    assert cycle_needs(wrong, 0, 60.0) == CycleNeeds(100, 100, 1)


@given(stages(), st.floats(0, 3000), st.floats(0, 2000), st.floats(0.1, 100))
def test_a_cycle_never_does_more_than_is_left(
    job: JobStages, done: float, speed: float, cycle_s: float
) -> None:
    """Nor more than the speed allows, and with the greatest speed it ends in the best time."""
    total = float(job.work.sum())
    after = done_after(job, done, speed, cycle_s)
    assert done <= after <= max(done, total) + 1e-6
    assert after - done <= speed * cycle_s * (1 + 1e-9) + 1e-9
    best_s = job.best_s(done)
    if best_s > 0:
        fastest = float(job.greatest_speed.max())
        assert done_after(job, done, fastest, best_s * (1 + 1e-9)) == pytest.approx(total)
        assert cycle_needs(job, done, best_s).greatest_speed <= fastest


@given(stages(), st.floats(0, 3000), st.floats(0, 1000), st.floats(0.1, 50), st.floats(0.1, 50))
def test_two_cycles_are_one(
    job: JobStages, done: float, speed: float, first_s: float, second_s: float
) -> None:
    """With the same speed it makes no difference where one cycle ends."""
    between = done_after(job, done, speed, first_s)
    twice = done_after(job, between, speed, second_s)
    assert twice == pytest.approx(done_after(job, done, speed, first_s + second_s), abs=1e-6)
