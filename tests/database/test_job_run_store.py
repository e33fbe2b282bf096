"""Runs of jobs in both databases: exact totals, few samples, no long deletions."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import sqlalchemy as sa

from merkatd.database.fleets import job_run_store, platform_store
from merkatd.database.fleets.job_run_store import (
    JOB_RUNS,
    JOB_SAMPLES,
    THINNED_RUNS,
    JobProgress,
    JobRun,
)
from merkatd.database.retention import Horizon, delete_old_rows
from merkatd.policies.job_profile import LATEST_RUNS, ProfiledStage
from tests.database.test_retention import add_platform

STAGE = ProfiledStage(work=1 / 3, greatest_speed=0.1 + 0.2, memory_mib=512.0)


def begun(
    connection: sa.Connection, since_s: float = 1.0, owner: int = 2, template: str = "t"
) -> JobRun:
    """Return the stored run of a new platform."""
    platform = add_platform(connection, "running", since_s, None)
    run = JobRun(platform=platform, owner=owner, template=template)
    job_run_store.add(connection, [run])
    return run


def later(run: JobRun, took_s: float = 60.0, cpu_s: float = 30.0, mib: float = 100.0) -> JobRun:
    """Return a run after one more period."""
    now = run.now
    return replace(
        run,
        now=JobProgress(
            ran_s=now.ran_s + took_s,
            cpu_s=now.cpu_s + cpu_s,
            memory_mib=max(now.memory_mib, mib),
            done=now.done,
        ),
    )


def stored(connection: sa.Connection, run: JobRun) -> JobRun:
    """Return the run as it is stored."""
    found = job_run_store.of_platform(connection, run.platform)
    assert found is not None
    return found


def ran(connection: sa.Connection, run: JobRun, periods: int) -> JobRun:
    """Return a run after some periods, each stored."""
    for _ in range(periods):
        job_run_store.advance(connection, [later(run)])
        run = stored(connection, run)
    return run


def end(connection: sa.Connection, run: JobRun, state: str, stages: Sequence[ProfiledStage]) -> int:
    """End the platform of a run, store the ends that are found, and return their number."""
    platform_store.change(connection, run.platform, state=state)
    found = job_run_store.ended(connection)
    job_run_store.end(connection, [(each, stages if each.is_whole else ()) for each in found])
    return len(found)


def test_a_run_is_stored_exactly(connection: sa.Connection) -> None:
    """A total that changed by a bit would make rates from it wrong."""
    platform = add_platform(connection, "running", 1.0, None)
    run = JobRun(
        platform=platform,
        owner=2,
        template="x" * 64,
        now=JobProgress(ran_s=1 / 3, cpu_s=0.1 + 0.2, memory_mib=1e12, done=1 / 7),
        samples=3,
        sampled_s=0.1,
        every_s=2 / 3,
        finished=frozenset({2**40, 5}),
        stages=(STAGE,),
        profile=(STAGE, STAGE),
        from_runs=3,
    )
    job_run_store.add(connection, [run])
    assert stored(connection, run) == run
    assert job_run_store.living(connection, [platform, 77]) == {platform: run}


def test_each_period_gives_a_sample_at_first(connection: sa.Connection) -> None:
    """The totals go on; the memory is the most since the sample before."""
    run = begun(connection)
    job_run_store.advance(connection, [later(run, mib=300.0)])
    job_run_store.advance(connection, [later(stored(connection, run), mib=100.0)])
    assert [
        (sample.ran_s, sample.cpu_s, sample.memory_mib)
        for sample in job_run_store.samples_of(connection, run.platform)
    ] == [(60.0, 30.0, 300.0), (120.0, 60.0, 100.0)]
    assert stored(connection, run).samples == 2


def test_a_period_without_measured_time_gives_no_sample(connection: sa.Connection) -> None:
    """Two samples of one time would contradict each other."""
    run = ran(connection, begun(connection), 1)
    job_run_store.advance(connection, [replace(run, finished=frozenset({7}))])
    assert stored(connection, run).finished == {7}
    assert len(job_run_store.samples_of(connection, run.platform)) == 1


def distances(connection: sa.Connection, run: JobRun) -> set[float]:
    """Return the times between the samples of a run."""
    samples = job_run_store.samples_of(connection, run.platform)
    return {after.ran_s - before.ran_s for before, after in pairwise(samples)}


def test_samples_are_bounded_and_thinned(
    connection: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No total and no highest memory is lost; old and new samples have the same distance."""
    most = 20
    monkeypatch.setattr(job_run_store, "MOST_SAMPLES", most)
    run = ran(connection, begun(connection), 4)
    job_run_store.advance(connection, [later(run, mib=900.0)])
    run = ran(connection, stored(connection, run), most - 5)
    assert run.samples == most
    run = ran(connection, run, 1)
    samples = job_run_store.samples_of(connection, run.platform)
    assert run.samples == len(samples) == most // 2
    assert distances(connection, run) == {120.0}
    assert [sample.memory_mib for sample in samples].count(900.0) == 1
    assert run.now.ran_s == 60.0 * (most + 1)
    run = ran(connection, run, most - 1)
    assert run.samples == most
    assert distances(connection, run) == {120.0}
    run = ran(connection, run, 1)
    assert distances(connection, run) == {240.0}
    assert (run.now.ran_s, run.now.cpu_s) == (60.0 * (2 * most + 1), 30.0 * (2 * most + 1))


def test_few_runs_are_thinned_at_once(
    connection: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for their turn, and keep their bound meanwhile."""
    monkeypatch.setattr(job_run_store, "MOST_SAMPLES", 8)
    runs = [begun(connection, number) for number in range(1, 8)]
    deleted = []
    for _ in range(60):
        before = connection.scalar(sa.select(sa.func.count()).select_from(JOB_SAMPLES)) or 0
        runs = [stored(connection, run) for run in runs]
        job_run_store.advance(connection, map(later, runs))
        after = connection.scalar(sa.select(sa.func.count()).select_from(JOB_SAMPLES)) or 0
        deleted.append(max(before - after, 0))
        assert all(stored(connection, run).samples <= 8 for run in runs)
    assert 0 < max(deleted) <= 4 * THINNED_RUNS
    last = [stored(connection, run) for run in runs]
    assert {run.now.ran_s for run in last} == {3600.0}
    assert all(run.every_s > 60.0 for run in last), "each had its turn"


def test_a_run_that_is_over_has_stages_and_no_samples(connection: sa.Connection) -> None:
    """Its samples come with it once, oldest first."""
    run = ran(connection, begun(connection), 3)
    other = ran(connection, begun(connection, 2.0), 2)
    platform_store.change(connection, run.platform, state="done")
    (over,) = job_run_store.ended(connection)
    assert over.is_whole
    assert [sample.ran_s for sample in over.samples] == [60.0, 120.0, 180.0]
    assert end(connection, run, "done", [STAGE]) == 1
    assert job_run_store.ended(connection) == ()
    assert stored(connection, run).stages == (STAGE,)
    assert job_run_store.samples_of(connection, run.platform) == ()
    assert job_run_store.living(connection, [run.platform, other.platform]).keys() == {
        other.platform
    }
    assert len(job_run_store.samples_of(connection, other.platform)) == 2


@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_a_run_whose_work_was_not_done_has_no_stages(connection: sa.Connection, state: str) -> None:
    """Its samples are deleted all the same, without being read."""
    run = ran(connection, begun(connection), 3)
    platform_store.change(connection, run.platform, state=state)
    (over,) = job_run_store.ended(connection)
    assert (over.is_whole, over.samples) == (False, ())
    end(connection, run, state, [STAGE])
    assert job_run_store.whole_runs(connection, 2, "t") == []
    assert connection.scalar(sa.select(sa.func.count()).select_from(JOB_SAMPLES)) == 0


def test_many_ends_are_stored_a_few_at_a_time(
    connection: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many rows as the samples of two runs; runs without samples are cheap."""
    monkeypatch.setattr(job_run_store, "MOST_SAMPLES", 8)
    runs = [ran(connection, begun(connection, number), 8) for number in range(1, 6)]
    short = [begun(connection, 10.0 + number) for number in range(5)]
    for run in (*runs, *short):
        platform_store.change(connection, run.platform, state="done")
    counts = []
    while found := job_run_store.ended(connection):
        counts.append(len(found))
        job_run_store.end(connection, [(each, ()) for each in found])
    assert counts == [2, 2, 6]


def test_profiles_come_from_the_owners_own_newest_runs(connection: sa.Connection) -> None:
    """Neither another owner's runs count, nor those of another template, nor old ones."""
    for number in range(LATEST_RUNS + 3):
        run = begun(connection, number)
        stage = replace(STAGE, work=float(number))
        end(connection, run, "done", [stage])
    for owner, template in ((3, "t"), (2, "u")):
        end(connection, begun(connection, 0.0 - owner, owner, template), "done", [STAGE] * 2)
    end(connection, begun(connection, 99.0), "done", [])
    works = [stages[0].work for stages in job_run_store.whole_runs(connection, 2, "t")]
    assert works == [float(number) for number in range(3, LATEST_RUNS + 3)]
    assert [len(run) for run in job_run_store.whole_runs(connection, 3, "t")] == [2]
    assert job_run_store.whole_runs(connection, 3, "u") == []


def test_runs_are_deleted_with_their_platforms(connection: sa.Connection) -> None:
    """Also a run whose end was never stored; the run of a living platform stays."""
    gone, lost = ran(connection, begun(connection), 2), ran(connection, begun(connection, 2.0), 2)
    stays = ran(connection, begun(connection, 3.0), 2)
    end(connection, gone, "done", [STAGE])
    platform_store.change(connection, lost.platform, state="done")
    while delete_old_rows(connection, Horizon(10**6, 1e12, 1e12)):
        pass
    assert list(connection.scalars(sa.select(JOB_RUNS.c.platform))) == [stays.platform]
    assert set(connection.scalars(sa.select(JOB_SAMPLES.c.platform))) == {stays.platform}
