"""The runs of jobs: what their VMs used and did in each period, and the profiles of later runs.

# Note [The time of a run]
A run's time is the time for which its use was measured. The use comes from counters of CPU time, so
a jump of the wall clock does not change its amount. The time between two observations comes from a
clock that never jumps. So a jump of the wall clock changes no speed: after a jump forward the
amount of the period is divided by the real time, and after a jump back there is no use for one
period.

The first period of a daemon has no earlier reading of that clock, and takes the wall clock's time
between the observations, up to `MOST_INTERVALS` intervals.

Example: observations at 12:00 and 13:01 by the wall clock, 60 s apart in fact, of a job that used
45 core-seconds. The history says 1.2 percent of a core over 3,660 s. The run gets 45 core-seconds
in 60 s, which is a speed of 75 percent of a core.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import sqlalchemy as sa

from merkatd.cluster import Snapshot
from merkatd.database.fleets import job_run_store
from merkatd.database.fleets.job_run_store import EndedRun, JobProgress, JobRun
from merkatd.limits.enforced_limits import CPU, MEMORY
from merkatd.platforms.declarations.application_terms import StageTerms
from merkatd.platforms.profiles.application_use import used_by_applications
from merkatd.platforms.rules.made_iterations import NO_ENDS, MeasuredVms, VmEnds
from merkatd.policies.job_profile import (
    PERCENT_OF_A_CORE,
    JobSample,
    ProfiledStage,
    job_profile,
    stages_of_run,
)

MOST_INTERVALS: Final = 5.0
_IDLE: Final = 2
"""The samples at the end of a run that may have idle time: less than those of a stage."""
_MOST: Final = 1e12
"""The largest amount in a period, far above what any cloud can do."""
_LEAST_SPEED: Final = 1.0
"""The least speed of a profiled stage that counts as its greatest, in percent of a core."""


class MeasuredJob(NamedTuple):
    """A job that lives, as far as it was measured in a period."""

    application: int
    """The value of `vms.application` for its VMs."""
    done: float | None
    """The finished part of its work; None if nothing reports it."""
    vms: MeasuredVms = MeasuredVms()
    ends_after: float | None = None
    """The iterations after which the daemon itself ends it, if some VM of it has made them."""


@dataclass(frozen=True, slots=True)
class RunPart:
    """What a run did since its totals were last stored."""

    took_s: float = 0.0
    cpu_s: float = 0.0
    memory_mib: float = 0.0
    done: float | None = None
    ends: VmEnds = NO_ENDS

    def followed_by(self, later: "RunPart") -> "RunPart":
        """Return both parts as one."""
        return RunPart(
            took_s=self.took_s + later.took_s,
            cpu_s=self.cpu_s + later.cpu_s,
            memory_mib=max(self.memory_mib, later.memory_mib),
            done=self.done if later.done is None else later.done,
            ends=self.ends.followed_by(later.ends),
        )


class RunParts:
    """What the runs of living jobs did since their totals were last stored.

    See Note [The time of a run].
    """

    def __init__(self, ticks: Callable[[], float]) -> None:
        """Begin without any part. `ticks` returns the time of a clock that never jumps."""
        self._ticks = ticks
        self._last: tuple[float, float] | None = None
        """The wall clock's time of the newest observation, and the ticks when it was noted."""
        self._parts: dict[int, RunPart] = {}

    def note(self, snapshot: Snapshot, interval_s: float, jobs: Mapping[int, MeasuredJob]) -> None:
        """Add what these jobs did in the last period, by platform, and forget all others."""
        self._parts = {each: part for each, part in self._parts.items() if each in jobs}
        window = self._window(snapshot, interval_s)
        cpu = {} if window is None else used_by_applications(snapshot, CPU)
        memory = used_by_applications(snapshot, MEMORY, assume_all=True)
        for platform, job in jobs.items():
            part = RunPart(done=job.done, ends=job.vms.ends)
            if window is not None and job.application in cpu:
                cpu_s = cpu[job.application] * window.counted_s / PERCENT_OF_A_CORE
                mib = memory.get(job.application, 0.0)
                if 0.0 <= cpu_s <= _MOST and 0.0 <= mib <= _MOST:
                    part = replace(part, took_s=window.took_s, cpu_s=cpu_s, memory_mib=mib)
            self._parts[platform] = self._parts.get(platform, _NOTHING).followed_by(part)

    def take(self) -> Mapping[int, RunPart]:
        """Return the parts by platform, and begin anew."""
        taken, self._parts = self._parts, {}
        return taken

    def give_back(self, taken: Mapping[int, RunPart]) -> None:
        """Add parts that could not be stored."""
        for platform, part in taken.items():
            self._parts[platform] = part.followed_by(self._parts.get(platform, _NOTHING))

    def _window(self, snapshot: Snapshot, interval_s: float) -> "_Window | None":
        """Return the time that counts of the newest sample of use; None if none does."""
        history = snapshot.history
        if history is None or not len(history.at_s):
            return None
        end_s, tick_s = float(history.at_s[-1]), self._ticks()
        last, self._last = self._last, (end_s, tick_s)
        if len(history.at_s) < 2:
            return None
        start_s = float(history.at_s[-2])
        if last is None:
            took_s = end_s - start_s
            fits = 0.0 < took_s <= MOST_INTERVALS * interval_s
            return _Window(took_s, took_s) if fits else None
        passed_s, ticked_s = end_s - last[0], tick_s - last[1]
        counted_s = end_s - max(start_s, last[0])
        if min(passed_s, ticked_s, counted_s) <= 0.0:
            return None
        return _Window(ticked_s * counted_s / passed_s, counted_s)


class _Window(NamedTuple):
    """The part of a sample of use that was not counted yet."""

    took_s: float
    """The real time that it covers."""
    counted_s: float
    """The same time by the wall clock, of which the sample has the average use."""


_NOTHING: Final = RunPart()


def advanced(run: JobRun, part: RunPart) -> JobRun:
    """Return the run after one more part of it."""
    now = run.now
    return replace(
        run,
        now=JobProgress(
            ran_s=now.ran_s + part.took_s,
            cpu_s=now.cpu_s + part.cpu_s,
            memory_mib=max(now.memory_mib, part.memory_mib),
            done=now.done if part.done is None else part.done,
        ),
        finished=VmEnds(run.finished).followed_by(part.ends).finished,
    )


def stages_of(ended: EndedRun) -> tuple[ProfiledStage, ...]:
    """Return the stages of a run that is over; none unless its work was done.

    It takes up to a second for a run with all samples.
    """
    if not ended.is_whole:
        return ()
    return stages_of_run(job_samples([*ended.samples, ended.run.now]))


class _Step(NamedTuple):
    """A run between two samples."""

    took_s: float
    cpu_s: float
    memory_mib: float

    @property
    def cores(self) -> float:
        return self.cpu_s / self.took_s


def job_samples(totals: Sequence[JobProgress]) -> list[JobSample]:
    """Return the samples of a run from its totals at several times, oldest first.

    They end where the job reports its end. A job that reports less later had not ended. The end
    lies within a sample, and VMs live on for a while: idle time in the last two samples is cut off,
    and all samples after the last use of CPU.
    """
    known = [total for total, ended in zip(totals, _ended(totals), strict=True) if not ended]
    steps = [
        _Step(after.ran_s - before.ran_s, max(after.cpu_s - before.cpu_s, 0.0), after.memory_mib)
        for before, after in pairwise([JobProgress(), *known])
        if after.ran_s > before.ran_s
    ]
    while steps and steps[-1].cpu_s == 0.0:
        steps.pop()
    for row in range(max(len(steps) - _IDLE, 1), len(steps)):
        usual = steps[max(len(steps) - _IDLE - 1, 0)].cores
        if steps[row].cores < usual:
            steps[row] = steps[row]._replace(took_s=steps[row].cpu_s / usual)
    samples, at_s = [JobSample(0.0, 0.0, 0.0)], 0.0
    for step in steps:
        if at_s + step.took_s > at_s:
            at_s += step.took_s
            samples.append(JobSample(at_s, step.cores * PERCENT_OF_A_CORE, step.memory_mib))
    return samples


def _ended(totals: Sequence[JobProgress]) -> list[bool]:
    """Return for each time whether the job had reported its end before, and never less since."""
    found, over = [], True
    for before in reversed([JobProgress(), *totals[:-1]]):
        over = over and before.done is not None and before.done >= 1.0
        found.append(over)
    return found[::-1] if totals else []


class KnownProfile(NamedTuple):
    """The stages of a job by its earlier runs, and the number of these runs."""

    stages: tuple[ProfiledStage, ...]
    runs: int


def known_profile(connection: sa.Connection, owner: int, template: str) -> KnownProfile:
    """Return the profile of an owner's runs with this key of their template."""
    runs = job_run_store.whole_runs(connection, owner, template)
    return KnownProfile(job_profile(runs), len(runs))


def stage_terms(profile: Iterable[ProfiledStage]) -> tuple[StageTerms, ...]:
    """Return the stages of a profile as a template would declare them."""
    return tuple(
        StageTerms(
            work=stage.work,
            least_speed=0.0,
            greatest_speed=max(stage.greatest_speed, _LEAST_SPEED),
            memory_mib=stage.memory_mib,
        )
        for stage in profile
    )
