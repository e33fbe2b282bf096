"""The work profiler recovers the work of a request, and says when it can't."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from merkatd.platforms.profiles.work_profile import (
    LEAST_SAMPLES,
    LONGEST_WINDOW,
    WorkProfile,
    WorkSample,
    work_of,
)

WORK = st.floats(1e-4, 10.0)
IDLE = st.floats(0.0, 50.0)
SEED = st.integers(0, 2**32)
ANY = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([-1.0, 1e308, -1e308, 5e-324, 0.0, 1e9, 1e12]),
    st.floats(0.0, 1e9),
)


def samples_of(
    work: float, idle: float, seed: int, noise: float = 0.05, count: int = 60
) -> list[WorkSample]:
    """Return samples of a service under changing load, with noise in the used CPU."""
    random = np.random.default_rng(seed)
    samples = []
    for _ in range(count):
        rate = float(random.uniform(10.0, 100.0))
        exact = idle + 100.0 * work * rate
        samples.append(WorkSample(rate, max(0.0, exact * float(random.normal(1.0, noise)))))
    return samples


def test_the_example_of_the_note() -> None:
    """Ten requests a second more use a fifth of a core more; one sample is absurd."""
    rates = [10.0, 20.0, 30.0, 40.0, 15.0, 25.0, 35.0, 45.0]
    samples = [WorkSample(rate, 5.0 + 2.0 * rate) for rate in rates]
    seen = work_of([*samples, WorkSample(30.0, 5000.0)])
    assert seen.work_per_request == pytest.approx(0.02)
    assert seen.idle_cpu == pytest.approx(5.0)


@given(WORK, IDLE, SEED)
def test_the_work_is_recovered_within_a_tenth(work: float, idle: float, seed: int) -> None:
    """With 60 samples whose use has 5 percent of noise, unless idle use hides the requests."""
    assume(idle < 100.0 * work * 55.0)
    seen = work_of(samples_of(work, idle, seed))
    assert seen.work_per_request == pytest.approx(work, rel=0.1)
    assert seen.error is not None
    assert seen.error < 0.1 * work


@given(WORK, IDLE)
def test_without_noise_it_is_exact(work: float, idle: float) -> None:
    """Rounding aside."""
    seen = work_of(samples_of(work, idle, 1, noise=0.0))
    assert seen.work_per_request == pytest.approx(work, rel=1e-6)
    assert seen.idle_cpu == pytest.approx(idle, rel=1e-4, abs=1e-6 * work * 1e4)


@given(WORK, SEED, ANY, ANY, st.integers(0, 60))
def test_one_absurd_sample_changes_little(
    work: float, seed: int, rate: float, used: float, place: int
) -> None:
    """Whatever it says, and whenever."""
    good = samples_of(work, 0.0, seed)
    before = work_of(good).work_per_request
    after = work_of([*good[:place], WorkSample(rate, used), *good[place:]]).work_per_request
    assert before is not None
    assert after == pytest.approx(before, rel=0.05)


@given(WORK, SEED)
def test_a_fifth_of_the_samples_may_be_absurd(work: float, seed: int) -> None:
    """They claim a thousand cores at any throughput."""
    samples = samples_of(work, 0.0, seed)
    for row in range(0, 60, 5):
        samples[row] = replace(samples[row], used_cpu=1e5 + 1e6 * work)
    assert work_of(samples).work_per_request == pytest.approx(work, rel=0.2)


@given(st.lists(st.builds(WorkSample, ANY, ANY), max_size=40))
@example([*[WorkSample(0.0, 0.0)] * 6, WorkSample(1.0, 0.0), WorkSample(5e-324, 1.0)])
@example([WorkSample(row * 1e-320, 1e9) for row in range(12)])
def test_an_estimate_is_positive_and_finite_or_unknown(samples: Sequence[WorkSample]) -> None:
    """No sample of a hostile VM gives NaN, and unknown has a reason."""
    seen = work_of(samples)
    if seen.work_per_request is None:
        assert seen.why
        assert seen.idle_cpu is seen.error is None
        return
    assert 0.0 < seen.work_per_request < math.inf
    assert seen.idle_cpu is not None
    assert 0.0 <= seen.idle_cpu < math.inf
    assert seen.error is not None
    assert 0.0 <= seen.error < math.inf


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ([], f"0 samples; at least {LEAST_SAMPLES} are needed"),
        ([WorkSample(50.0 + row % 2, 100.0 + row) for row in range(60)], "hardly changes"),
        ([WorkSample(50.0, 100.0)] * 30 + [WorkSample(500.0, 900.0)], "hardly changes"),
        ([WorkSample(0.0, 1.0)] * 60, "hardly changes"),
        ([WorkSample(row, 50.0) for row in range(60)], "does not follow"),
        ([WorkSample(row, 600.0 - row) for row in range(60)], "does not follow"),
        (samples_of(0.001, 400.0, 3, noise=0.2), "does not follow"),
    ],
)
def test_it_is_unknown_if_the_samples_can_not_tell(samples: list[WorkSample], why: str) -> None:
    """The reason names the missing part."""
    seen = work_of(samples)
    assert seen.work_per_request is None
    assert why in seen.why


def test_the_window_slides() -> None:
    """A new version of the application counts once the window has only its samples."""
    profile = WorkProfile()
    for sample in [*samples_of(1.0, 0.0, 1, count=200), *samples_of(0.1, 0.0, 2, count=120)]:
        profile = profile.with_sample(sample)
        assert len(profile.samples) <= LONGEST_WINDOW
    assert profile.estimate().work_per_request == pytest.approx(0.1, rel=0.1)
    assert profile.with_sample(WorkSample(math.nan, 1.0)) is profile


def test_the_idle_use_is_never_negative() -> None:
    """A line that would fall below zero goes through zero, closest to the samples."""
    rates = [float(rate) for rate in range(10, 50, 2)]
    seen = work_of([WorkSample(rate, 2.0 * rate - 10.0) for rate in rates])
    used = sum(rate * (2.0 * rate - 10.0) for rate in rates) / sum(rate * rate for rate in rates)
    assert seen.idle_cpu == 0.0
    assert seen.work_per_request == pytest.approx(used / 100.0)
