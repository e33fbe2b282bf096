"""The job profiler recovers the stages of a job from its runs."""

import math
from collections.abc import Sequence
from itertools import combinations
from operator import sub

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.policies.change_points import MOST_POINTS, divide
from merkatd.policies.job_profile import (
    LATEST_RUNS,
    MOST_STAGES,
    JobSample,
    ProfiledStage,
    job_profile,
    stages_of_run,
)

Stage = tuple[float, float, float]
"""Length in seconds, percent of a core, MiB."""
STAGES: tuple[Stage, ...] = (
    (600.0, 400.0, 2000.0),
    (1200.0, 100.0, 6000.0),
    (300.0, 800.0, 2000.0),
)
ANY = st.one_of(st.floats(), st.sampled_from([-1.0, 1e308, 5e-324, 0.0]), st.floats(0.0, 1e6))


def run_of(
    stages: Sequence[Stage], noise: float = 0.05, seed: int = 1, every_s: float = 10.0
) -> list[JobSample]:
    """Return the samples of a run."""
    random = np.random.default_rng(seed)
    samples, at_s = [JobSample(0.0, 0.0, 0.0)], 0.0
    for length_s, cpu, memory in stages:
        for _ in range(int(length_s / every_s)):
            at_s += every_s
            used = max(0.0, cpu * float(random.normal(1.0, noise)))
            samples.append(JobSample(at_s, used, memory))
    return samples


def cost(columns: Sequence[Sequence[float]], ends: Sequence[int], penalty: float) -> float:
    """Return the cost of a division, from its definition."""
    total = penalty * len(ends)
    for start, end in zip((0, *ends), ends, strict=False):
        for column in columns:
            total += (end - start) * float(np.var(column[start:end]))
    return total


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8),
    st.floats(0.1, 30.0),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_the_division_is_the_best_of_all(
    points: list[tuple[int, int]], penalty: float, most: int, shortest: int
) -> None:
    """Brute force over all divisions finds none that costs less."""
    columns = [[float(value) for value in column] for column in zip(*points, strict=True)]
    count = len(points)
    least = min(
        cost(columns, (*cuts, count), penalty)
        for parts in range(1, min(most, count) + 1)
        for cuts in combinations(range(1, count), parts - 1)
        if parts == 1 or min(map(sub, (*cuts, count), (0, *cuts))) >= shortest
    )
    ends = divide(columns, penalty, most, shortest)
    assert len(ends) <= most
    assert ends[-1] == count
    assert cost(columns, ends, penalty) == pytest.approx(least, abs=1e-9)


def test_a_long_series_is_refused() -> None:
    """The time grows with the square of its length."""
    with pytest.raises(ValueError, match=f"at most {MOST_POINTS} points"):
        divide([[0.0] * (MOST_POINTS + 1)], 1.0, 2)


@pytest.mark.parametrize("every_s", [10.0, 2.0, 30.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_stages_of_a_run_are_found(every_s: float, seed: int) -> None:
    """Work within six percent, speed within ten, with five percent of noise."""
    found = stages_of_run(run_of(STAGES, seed=seed, every_s=every_s))
    assert len(found) == len(STAGES)
    for stage, (length_s, cpu, memory) in zip(found, STAGES, strict=True):
        assert stage.work == pytest.approx(length_s * cpu / 100.0, rel=0.06)
        assert stage.greatest_speed == pytest.approx(cpu, rel=0.1)
        assert stage.memory_mib == memory


@given(st.integers(0, 2**32), st.floats(0.0, 0.1), st.floats(1.0, 1e4))
def test_a_steady_run_has_one_stage(seed: int, noise: float, cpu: float) -> None:
    """Noise is no stage."""
    (stage,) = stages_of_run(run_of([(1000.0, cpu, 512.0)], noise, seed))
    assert stage.work == pytest.approx(10.0 * cpu, rel=0.05)


def test_a_pause_is_no_stage() -> None:
    """While the VMs are suspended nothing measures them."""
    whole = run_of(STAGES)
    half = len(whole) // 2
    paused = whole[:half] + [
        JobSample(sample.at_s + 86_400.0, sample.used_cpu, sample.memory_mib)
        for sample in whole[half:]
    ]
    found, expected = stages_of_run(paused), stages_of_run(whole)
    assert len(found) == len(expected)
    for stage, other in zip(found, expected, strict=True):
        assert stage.work == pytest.approx(other.work, rel=0.05)


def test_the_idle_time_after_the_end_is_no_stage() -> None:
    """The progress shows the end of the work."""
    samples = run_of([(1000.0, 400.0, 2000.0), (1000.0, 2.0, 2000.0)])
    done = [
        JobSample(sample.at_s, sample.used_cpu, sample.memory_mib, min(sample.at_s / 1000.0, 1.0))
        for sample in samples
    ]
    assert len(stages_of_run(samples)) == 2
    assert len(stages_of_run(done)) == 1


@given(st.lists(st.builds(JobSample, ANY, ANY, ANY, st.none() | ANY), max_size=60))
def test_any_samples_give_few_and_finite_stages(samples: list[JobSample]) -> None:
    """Nothing is negative, infinite or NaN."""
    stages = stages_of_run(samples)
    assert len(stages) <= MOST_STAGES
    for stage in stages:
        for value in (stage.work, stage.greatest_speed, stage.memory_mib):
            assert 0.0 <= value < math.inf


@given(
    st.lists(
        st.builds(
            JobSample, st.integers(0, 10**6).map(float), st.floats(0.0, 1e4), st.floats(0, 1e5)
        ),
        min_size=20,
        max_size=400,
    )
)
def test_no_work_is_lost(samples: list[JobSample]) -> None:
    """The stages together have the work of the run, also of one with many samples."""
    samples = sorted(samples, key=lambda sample: sample.at_s)
    samples = [
        JobSample(10.0 * row, sample.used_cpu, sample.memory_mib)
        for row, sample in enumerate(samples)
    ]
    whole = math.fsum(10.0 * sample.used_cpu for sample in samples[1:]) / 100.0
    stages = stages_of_run(samples)
    assert math.fsum(stage.work for stage in stages) == pytest.approx(whole, rel=1e-9, abs=1e-9)


def test_a_disturbed_run_changes_nothing() -> None:
    """It has another number of stages, or absurd values."""
    runs = [stages_of_run(run_of(STAGES, seed=seed)) for seed in range(5)]
    before = job_profile(runs)
    absurd = (ProfiledStage(work=1e12, greatest_speed=1e9, memory_mib=1e9),)
    assert job_profile([*runs, absurd, ()]) == before
    for stage, other in zip(job_profile([*runs, absurd * 3]), before, strict=True):
        assert stage.work == pytest.approx(other.work, rel=0.05)
        assert stage.greatest_speed == pytest.approx(other.greatest_speed, rel=0.1)


def test_only_the_newest_runs_count() -> None:
    """A new version of the application counts after as many runs."""
    old = (ProfiledStage(work=1.0, greatest_speed=100.0, memory_mib=10.0),)
    new = (ProfiledStage(work=9.0, greatest_speed=200.0, memory_mib=20.0),)
    assert job_profile([]) == job_profile([(), ()]) == ()
    assert job_profile([old] * 50 + [new] * LATEST_RUNS) == new
    assert job_profile([old, (*old, *new)]) == old
