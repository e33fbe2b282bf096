"""The parts of runs: right amounts and times whatever the clock does, and stages from them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Snapshot, UsageHistory
from merkatd.database.fleets.job_run_store import EndedRun, JobProgress, JobRun
from merkatd.platforms.profiles.job_runs import (
    MOST_INTERVALS,
    MeasuredJob,
    RunPart,
    RunParts,
    advanced,
    job_samples,
    stage_terms,
    stages_of,
)
from merkatd.policies.job_profile import LEAST_POINTS, ProfiledStage
from merkatd.scheduler.base.settings import RESOURCES
from tests.clouds import cloud, hosts_table, vms_table

INTERVAL_S = 60.0
MINE, OTHER = 11, 12
JOBS = {MINE: MeasuredJob(7, None), OTHER: MeasuredJob(9, None)}


def seen(at_s: Sequence[float], cpu: Sequence[float], memory: Sequence[float]) -> Snapshot:
    """Return three VMs on a host, two of application 7 and one of 9, with their newest use."""
    host = hosts_table(np.array([[800.0, 8192.0]]))
    vms = vms_table(np.zeros(3, dtype=int), np.ones((3, 2)), np.full((3, 2), 200.0))
    snapshot = cloud(host, replace(vms, application=np.array([7, 7, 9])), resources=RESOURCES)
    used = np.full((len(at_s), 3, 2), np.nan)
    used[-1, :, 0], used[-1, :, 1] = cpu, memory
    history = UsageHistory(np.array(at_s), used, np.full((len(at_s), 1, 2), np.nan))
    return replace(snapshot, history=history)


class Life:
    """A daemon that observes two applications, with a wall clock that a test may set."""

    def __init__(self) -> None:
        self.real_s = 0.0
        self.wall_s = 1e6
        self.before_s: float | None = None
        """The wall clock's time of the last observation; None if it does not count any more."""
        self.parts = RunParts(lambda: self.real_s)
        self.used_s = 0.0
        """The core-seconds of application 7 since the last observation."""

    def passes(self, took_s: float, cores: float = 0.5) -> None:
        """Let time pass, in which application 7 uses so many cores."""
        self.real_s += took_s
        self.wall_s += took_s
        self.used_s += cores * took_s

    def observe(self) -> None:
        """Observe as the scheduler does: a clock that was set back makes the use unknown."""
        if self.before_s is not None and self.wall_s == self.before_s:
            return
        if self.before_s is None or self.wall_s < self.before_s:
            times, rate = [self.wall_s], math.nan
        else:
            times = [self.before_s, self.wall_s]
            rate = 100.0 * self.used_s / (self.wall_s - self.before_s)
        snapshot = seen(times, [rate / 2, rate / 2, 10.0], [300.0, 200.0, 50.0])
        self.parts.note(snapshot, INTERVAL_S, JOBS)
        self.before_s, self.used_s = self.wall_s, 0.0

    def mine(self) -> RunPart:
        """Return the part of application 7 so far, which goes on."""
        taken = self.parts.take()
        self.parts.give_back(taken)
        return taken[MINE]


def test_the_use_of_all_vms_is_that_of_the_run() -> None:
    """Of its own VMs only; memory is the most of all together."""
    life = Life()
    life.observe()
    for _ in range(10):
        life.passes(INTERVAL_S)
        life.observe()
    part = life.mine()
    assert part.took_s == pytest.approx(600.0)
    assert part.cpu_s == pytest.approx(300.0)
    assert part.memory_mib == 500.0


@pytest.mark.parametrize("hours", [-30.0, -3.0, -0.01, 0.01, 3.0, 3000.0])
def test_a_jump_of_the_clock_changes_no_speed(hours: float) -> None:
    """A period's use may be unknown after it; a later jump back corrects nothing."""
    life = Life()
    for number in range(20):
        life.observe()
        life.passes(INTERVAL_S)
        if number == 7:
            life.wall_s += 3600.0 * hours
        if number == 12:
            life.wall_s -= 3600.0 * hours
    life.observe()
    part = life.mine()
    assert 18 * INTERVAL_S <= part.took_s <= 20 * INTERVAL_S
    assert part.cpu_s == pytest.approx(0.5 * part.took_s)


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 300.0),
            st.floats(0.0, 8.0),
            st.sampled_from([0.0] * 5 + [1.0, 3600.0, 86_400.0, 1e9])
            | st.floats(-1e9, 1e9, allow_nan=False),
        ),
        max_size=30,
    )
)
def test_no_clock_gives_wrong_amounts(steps: list[tuple[float, float, float]]) -> None:
    """Never more time than passed, nor more work than was done, nor anything negative."""
    life = Life()
    life.observe()
    real_s = done_s = 0.0
    run = JobRun(platform=MINE, owner=2, template="t")
    totals = []
    for took_s, cores, jump_s in steps:
        life.passes(took_s, cores)
        life.wall_s = max(life.wall_s + jump_s, 0.0)
        real_s, done_s = real_s + took_s, done_s + cores * took_s
        life.observe()
        part = life.parts.take().get(MINE, RunPart())
        assert part.took_s >= 0.0
        assert part.cpu_s >= 0.0
        run = advanced(run, part)
        totals.append(run.now)
    assert run.now.ran_s <= real_s * (1 + 1e-6) + 1e-6
    assert run.now.cpu_s <= done_s * (1 + 1e-6) + 1e-3
    for sample in job_samples(totals):
        assert 0.0 <= sample.used_cpu < math.inf


def test_overlapping_samples_are_counted_once() -> None:
    """Early periods make two samples one: its beginning was counted already."""
    life = Life()
    life.observe()
    life.passes(60.0)
    life.observe()
    start_s = life.wall_s
    for passed_s in (20.0, 40.0, 60.0):
        life.passes(20.0)
        snapshot = seen([start_s, start_s + passed_s], [25.0, 25.0, 0.0], [1.0] * 3)
        life.parts.note(snapshot, INTERVAL_S, JOBS)
    part = life.mine()
    assert part.took_s == pytest.approx(120.0)
    assert part.cpu_s == pytest.approx(60.0)


def test_a_jump_between_two_announcements_gives_nothing() -> None:
    """Two observations since then, of which one was not announced, hide the jump."""
    life = Life()
    life.observe()
    life.passes(60.0)
    life.observe()
    life.parts.take()
    life.real_s += 120.0
    snapshot = seen([life.wall_s - 7260.0, life.wall_s - 7200.0], [50.0] * 3, [1.0] * 3)
    life.parts.note(snapshot, INTERVAL_S, JOBS)
    assert life.mine() == RunPart()


@pytest.mark.parametrize("intervals", [0.5, 1.0, MOST_INTERVALS, MOST_INTERVALS + 0.1, 500.0])
def test_a_new_daemon_counts_what_its_stored_history_covers(intervals: float) -> None:
    """Not a time that may have been a jump."""
    parts = RunParts(lambda: 5.0)
    took_s = intervals * INTERVAL_S
    parts.note(seen([1e6, 1e6 + took_s], [30.0, 20.0, 1.0], [1.0] * 3), INTERVAL_S, JOBS)
    counts = intervals <= MOST_INTERVALS
    assert parts.take()[MINE] == RunPart(
        took_s=took_s if counts else 0.0,
        cpu_s=took_s / 2 if counts else 0.0,
        memory_mib=2.0 if counts else 0.0,
    )


def test_a_vm_of_unknown_use_gives_no_part() -> None:
    """Stages would look smaller than they are; others go on."""
    parts = RunParts(lambda: 5.0)
    parts.note(seen([1e6, 1e6 + 60.0], [30.0, math.nan, 50.0], [1.0] * 3), INTERVAL_S, JOBS)
    taken = parts.take()
    assert taken[MINE] == RunPart()
    assert taken[OTHER].cpu_s == 30.0


def test_a_vm_of_unknown_memory_counts_in_full() -> None:
    """A host that can't measure it would make later runs of the job too small."""
    parts = RunParts(lambda: 5.0)
    parts.note(seen([1e6, 1e6 + 60.0], [1.0] * 3, [50.0, math.nan, 1.0]), INTERVAL_S, JOBS)
    assert parts.take()[MINE].memory_mib == 250.0


def test_what_could_not_be_stored_is_not_lost() -> None:
    """It joins what followed; jobs that are gone are forgotten."""
    life = Life()
    life.observe()
    life.passes(60.0)
    life.observe()
    taken = life.parts.take()
    life.passes(60.0)
    life.observe()
    life.parts.give_back(taken)
    assert life.mine().cpu_s == pytest.approx(60.0)
    gone = {OTHER: JOBS[OTHER]}
    life.parts.note(seen([1.0], [math.nan] * 3, [0.0] * 3), INTERVAL_S, gone)
    assert life.parts.take().keys() == {OTHER}


def run_of(parts: Sequence[tuple[float, float | None]], more: RunPart | None = None) -> EndedRun:
    """Return an ended run of minutes with this use of cores and this progress."""
    run, samples = JobRun(platform=1, owner=2, template="t"), []
    for cores, done in parts:
        run = advanced(run, RunPart(60.0, 60.0 * cores, 100.0, done))
        samples.append(run.now)
        run = replace(run, now=replace(run.now, memory_mib=0.0))
    if more is not None:
        run = advanced(run, more)
    return EndedRun(run, is_whole=True, ended_s=1.0, samples=tuple(samples))


def test_the_stages_of_a_run_are_found() -> None:
    """Also what came after its last sample, and no more than it did."""
    ended = run_of([(1.0, None)] * 30 + [(4.0, None)] * 20, RunPart(60.0, 240.0, 100.0))
    first, second = stages_of(ended)
    assert first == ProfiledStage(work=1800.0, greatest_speed=100.0, memory_mib=100.0)
    assert second.work == pytest.approx(5040.0)
    assert second.greatest_speed == pytest.approx(400.0)
    assert stages_of(replace(ended, is_whole=False)) == ()


def test_the_idle_end_is_no_stage_but_a_false_end_is() -> None:
    """A job that claims to be done, and goes on, has not been done."""
    work, idle = [(2.0, 0.5)] * 20, [(0.001, 1.0)] * 30
    for last in (2.0, 1.0, 0.001):
        (stage,) = stages_of(run_of([*work, (last, 1.0), *idle]))
        assert stage.work == pytest.approx(2400.0 + 60.0 * last, rel=0.001)
        (stage,) = stages_of(run_of([*work, (last, None), (0.001, None)]))
        assert stage.work == pytest.approx(2400.0 + 60.0 * last, rel=0.001)
    (stage,) = stages_of(run_of([*work, (1.0, 0.9), *[(0.0, 0.9)] * 30]))
    assert stage.work == pytest.approx(2460.0, rel=0.001), "its monitor saw the end late"
    claims = [(2.0, 0.1)] * 3 + [(2.0, 1.0)] * 7 + [(2.0, 0.5)] * 10 + idle
    (stage,) = stages_of(run_of(claims))
    assert stage.work == pytest.approx(2400.0, rel=0.01)


def test_a_run_that_claims_its_end_from_the_start_gives_no_stages() -> None:
    """Its length is unknown: later runs are not believed to be short."""
    assert stages_of(run_of([(2.0, 1.0)] * 40)) == ()
    assert stages_of(run_of([(2.0, None)] * (LEAST_POINTS - 1))) == ()


def test_a_profile_is_a_possible_declaration() -> None:
    """A stage that was idle for most of its time still has a speed."""
    (stage,) = stage_terms([ProfiledStage(work=5.0, greatest_speed=0.0, memory_mib=3.0)])
    assert (stage.work, stage.least_speed, stage.greatest_speed) == (5.0, 0.0, 1.0)


@given(st.lists(st.builds(JobProgress, ran_s=st.floats(0.0, 1e9), cpu_s=st.floats(0.0, 1e12))))
def test_any_stored_totals_give_samples(totals: list[JobProgress]) -> None:
    """Also those that an earlier daemon or a person has changed."""
    samples = job_samples(totals)
    assert all(sample.used_cpu >= 0.0 for sample in samples)
