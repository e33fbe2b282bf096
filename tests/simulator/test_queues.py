"""The batch schedulers on cases computed by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.baselines.queue_baselines import TooLargeError, easy, fcfs
from simulator.workloads import SwfJob


def job(submit_s: float, run_s: float, procs: int, said_s: float = -1.0) -> SwfJob:
    """Return a job in which only these values matter."""
    return SwfJob(0, submit_s, run_s, procs, said_s, -1.0, 0)


def test_fcfs_jobs_never_overtake() -> None:
    """A small job waits behind a large one, even if it would fit."""
    jobs = [job(0, 10, 3), job(1, 10, 4), job(2, 1, 1)]
    queued = fcfs(jobs, 4)
    assert queued.start_s == [0, 10, 20]
    assert queued.mean_wait_s(jobs) == pytest.approx((0 + 9 + 18) / 3)
    assert queued.mean_slowdown(jobs) == pytest.approx((1 + 1.9 + 19) / 3)


def test_backfilling_uses_gaps_without_delaying_the_first_job() -> None:
    """A job that would end too late does not start, unless the first still fits."""
    jobs = [job(0, 10, 3), job(1, 10, 4), job(2, 8, 1), job(2, 9, 1)]
    assert easy(jobs, 4).start_s == [0, 10, 2, 20]
    jobs = [job(0, 10, 3), job(1, 10, 3), job(2, 50, 1)]
    assert easy(jobs, 4).start_s == [0, 10, 2]


def test_backfilling_uses_the_users_estimates() -> None:
    """Too high an estimate misses the gap, and an early end frees processors at once."""
    jobs = [job(0, 10, 3, 20), job(1, 10, 4), job(2, 8, 1, 19)]
    assert easy(jobs, 4).start_s == [0, 10, 20]
    jobs = [job(0, 10, 3, 20), job(1, 10, 4), job(2, 8, 1, 18)]
    assert easy(jobs, 4).start_s == [0, 10, 2]


@pytest.mark.parametrize("queue", [fcfs, easy])
def test_a_job_larger_than_the_machine_is_an_error(queue: object) -> None:
    """The error names the needed and the existing processors."""
    with pytest.raises(TooLargeError, match="needs 5 of 4"):
        queue([job(0, 1, 5)], 4)  # type: ignore[operator]


jobs_lists = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(1, 8)), max_size=25
).map(lambda rows: sorted((job(s, r, p) for s, r, p in rows), key=lambda job: job.submit_s))


@given(jobs_lists)
def test_jobs_never_exceed_the_machine_and_all_run(jobs: list[SwfJob]) -> None:
    """At the start of each job, the running jobs fit together."""
    for queue in (fcfs, easy):
        start_s = queue(jobs, 8).start_s
        for at_s, first in zip(start_s, jobs, strict=True):
            assert at_s >= first.submit_s
            running = sum(
                job.procs
                for begun_s, job in zip(start_s, jobs, strict=True)
                if begun_s <= at_s < begun_s + job.run_s
            )
            assert running <= 8


@given(jobs_lists)
def test_fcfs_starts_jobs_in_order_and_as_early_as_possible(jobs: list[SwfJob]) -> None:
    """A job starts at its submission, with the job before it, or when a job ends."""
    start_s = fcfs(jobs, 8).start_s
    assert start_s == sorted(start_s)
    ends = {begun_s + job.run_s for begun_s, job in zip(start_s, jobs, strict=True)}
    for row, (at_s, job) in enumerate(zip(start_s, jobs, strict=True)):
        assert at_s == job.submit_s or at_s in ends or (row and at_s == start_s[row - 1])
