"""Generated jobs, and the values assigned to applications."""

from math import log

import numpy as np
import pytest

from simulator.workloads import SwfJob
from simulator.workloads.job_applications import (
    TaskAssignment,
    TenantKind,
    assign,
    bursts,
    contended,
)
from simulator.workloads.lublin import (
    BATCH,
    INTERACTIVE,
    WHOLE,
    JobClass,
    day_weights,
    lublin,
    run_s,
    size,
)

TERMS = TaskAssignment(node_memory_mib=2048.0, boot_s=3.6)


@pytest.mark.parametrize("kind", [WHOLE, BATCH, INTERACTIVE])
def test_run_times_have_the_published_moments(kind: JobClass) -> None:
    """Mean and deviation of their logarithms are those of the two gamma distributions."""
    rng, count, procs = np.random.default_rng(1), 4000, 4
    drawn = np.log([run_s(kind, procs, rng) + 0.5 for _ in range(count)])
    part = kind.slope * procs + kind.offset
    means = [shape * scale for shape, scale in (kind.short, kind.long)]
    squares = [shape * scale**2 * (1 + shape) for shape, scale in (kind.short, kind.long)]
    mean = part * means[0] + (1 - part) * means[1]
    deviation = (part * squares[0] + (1 - part) * squares[1] - mean**2) ** 0.5
    # Values above the limit are drawn again, and times are whole seconds: both lose a little.
    assert drawn.mean() == pytest.approx(mean, abs=0.25)
    assert drawn.std() == pytest.approx(deviation, abs=0.3)


def test_sizes_have_the_published_distribution() -> None:
    """Single processors and powers of two are as frequent as published."""
    rng, count = np.random.default_rng(2), 6000
    kind = WHOLE.up_to(256)
    drawn = np.array([size(kind, rng) for _ in range(count)])
    assert (drawn == 1).mean() == pytest.approx(kind.serial, abs=0.03)
    powers = np.isin(drawn, 2 ** np.arange(9)).mean()
    assert powers >= kind.serial + kind.power - 0.03
    assert drawn.max() <= 256
    below = (np.log2(drawn[drawn > 1]) <= kind.medium).mean()
    assert below == pytest.approx(kind.below_medium, abs=0.06)


def test_larger_jobs_run_longer() -> None:
    """The larger a job, the more likely is a long run time."""
    rng = np.random.default_rng(3)
    small = np.mean([log(run_s(WHOLE, 1, rng)) for _ in range(1500)])
    large = np.mean([log(run_s(WHOLE, 100, rng)) for _ in range(1500)])
    assert large > small + 1.0


def test_jobs_follow_the_daily_cycle() -> None:
    """The rush hours' weight is many times that of the early morning, and 1 on average."""
    weights = day_weights(WHOLE)
    assert weights.mean() == pytest.approx(1.0)
    assert weights[20:36].min() > 4 * weights[8:11].max()


def test_the_same_seed_gives_the_same_jobs() -> None:
    """Jobs are sorted by submission, numbered, and of both kinds if requested."""
    jobs = lublin(300, 64, np.random.default_rng(4), (BATCH, INTERACTIVE))
    assert jobs == lublin(300, 64, np.random.default_rng(4), (BATCH, INTERACTIVE))
    assert [job.number for job in jobs] == list(range(1, 301))
    assert [job.submit_s for job in jobs] == sorted(job.submit_s for job in jobs)
    assert {job.user for job in jobs} == {0, 1}
    assert max(job.procs for job in jobs) <= 64


def job(submit_s: float, memory_kib: float = -1.0) -> SwfJob:
    """Return a job of four tasks of 100 s."""
    return SwfJob(1, submit_s, 100.0, 4, -1.0, memory_kib, 0)


def test_deadlines_budgets_and_memory_are_in_the_papers_ranges() -> None:
    """The budget times the deadline's factor is constant."""
    for application in assign(
        [job(50.0 + at) for at in range(200)], TERMS, np.random.default_rng(5)
    ):
        factor = application.deadline_s / application.ideal_s
        assert 1.5 <= factor <= 10.0
        assert application.budget * factor == pytest.approx(2000.0)
        assert 0.1 * 2048 <= application.memory_mib <= 0.5 * 2048
        assert application.ideal_s == 103.6
        assert application.tenant is TenantKind.FULL_DEADLINE


def test_the_first_job_starts_at_zero_and_a_traces_memory_counts() -> None:
    """The memory is limited to the maximum of a task."""
    known, greedy = assign([job(70.0, 512 * 1024), job(90.0, 9e9)], TERMS, np.random.default_rng(6))
    assert (known.submit_s, greedy.submit_s) == (0.0, 20.0)
    assert (known.memory_mib, greedy.memory_mib) == (512.0, 1024.0)


def test_contention_and_bursts_change_only_arrivals() -> None:
    """Budgets and other values stay unchanged."""
    applications = assign([job(10.0 * at) for at in range(6)], TERMS, np.random.default_rng(7))
    assert [application.submit_s for application in contended(applications, 0.1)] == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    burst = bursts(applications, size=3, spread_s=6.0)
    assert [application.submit_s for application in burst] == [0, 2, 4, 30, 32, 34]
    assert {application.budget for application in burst} == {
        application.budget for application in applications
    }
