"""Tables of jobs' runs, and of the samples of runs that are not over.

# Note [Rows of a run]
A run has one row in `job_runs`: its totals up to the last period, then its stages. Samples have the
same totals at earlier times. A run has at most `MOST_SAMPLES` of them. At that number every second
one is deleted, and the time between new ones doubles. One transaction deletes samples of at most
`THINNED_RUNS` runs, since other writers wait meanwhile. Until its turn comes, a run takes no more
samples, but its totals go on.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import LONG_TEXT, chunks, table
from merkatd.database.fleets.platform_store import OVER, PLATFORMS
from merkatd.policies.change_points import MOST_POINTS
from merkatd.policies.job_profile import LATEST_RUNS, ProfiledStage

MOST_SAMPLES: Final = 2 * MOST_POINTS
THINNED_RUNS: Final = 2
DONE: Final = "done"
"""The state of a platform whose work is done: only its run is a whole one."""


class JobRunColumns(TypedColumns):
    """The columns of `job_runs`."""

    platform: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("platforms.id"), primary_key=True, autoincrement=False
    )
    owner: Named[int] = Column(sa.Integer())
    template: Named[str] = Column(sa.String(64))
    ended_s: Named[float | None] = Column(sa.Double())
    ran_s: Named[float] = Column(sa.Double())
    cpu_s: Named[float] = Column(sa.Double())
    memory_mib: Named[float] = Column(sa.Double())
    done: Named[float | None] = Column(sa.Double())
    samples: Named[int] = Column(sa.Integer())
    sampled_s: Named[float] = Column(sa.Double())
    every_s: Named[float] = Column(sa.Double())
    finished: Named[str] = Column(LONG_TEXT)
    stages: Named[str] = Column(LONG_TEXT)
    profile: Named[str] = Column(LONG_TEXT)
    from_runs: Named[int] = Column(sa.Integer())


class JobSampleColumns(TypedColumns):
    """The columns of `job_samples`."""

    platform: Named[int] = Column(
        sa.BigInteger(), sa.ForeignKey("platforms.id"), primary_key=True, autoincrement=False
    )
    ran_s: Named[float] = Column(sa.Double(), primary_key=True, autoincrement=False)
    cpu_s: Named[float] = Column(sa.Double())
    memory_mib: Named[float] = Column(sa.Double())
    done: Named[float | None] = Column(sa.Double())


JOB_RUNS = table(
    "job_runs", JobRunColumns, sa.Index(None, "owner", "template"), sa.Index(None, "ended_s")
)
JOB_SAMPLES = table("job_samples", JobSampleColumns)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """The totals of a run at a moment."""

    ran_s: float = 0.0
    """The measured time for which it has run."""
    cpu_s: float = 0.0
    """The core-seconds that all of its VMs together got in that time."""
    memory_mib: float = 0.0
    """The most memory that its VMs had since the sample before."""
    done: float | None = None
    """The finished part of its work, from 0 to 1; None if it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """The run of a job."""

    platform: int
    owner: int
    template: str
    """The key of its template: the runs of an owner with the same key are comparable."""
    ended_s: float | None = None
    now: JobProgress = JobProgress()
    samples: int = 0
    sampled_s: float = 0.0
    """The measured time of its newest sample."""
    every_s: float = 0.0
    """The least measured time between two samples."""
    finished: frozenset[int] = frozenset()
    """The VMs that have made all their iterations."""
    stages: tuple[ProfiledStage, ...] = ()
    """What it was, once it is over; empty if its work was not done."""
    profile: tuple[ProfiledStage, ...] = ()
    """The stages from earlier runs, as they were known at its start."""
    from_runs: int = 0
    """The number of these runs."""


_LIVING = sa.select(JOB_RUNS).where(
    JOB_RUNS.c.ended_s.is_(None), JOB_RUNS.c.platform.in_(sa.bindparam("ids", expanding=True))
)
_ONE = sa.select(JOB_RUNS).where(JOB_RUNS.c.platform == sa.bindparam("its_id"))
_OVER = (
    sa.select(JOB_RUNS, PLATFORMS.c.state, PLATFORMS.c.since_s)
    .join(PLATFORMS, PLATFORMS.c.id == JOB_RUNS.c.platform)
    .where(JOB_RUNS.c.ended_s.is_(None), PLATFORMS.c.state.in_(OVER))
    .order_by(JOB_RUNS.c.platform)
    .limit(sa.bindparam("most"))
)
_WHOLE = (
    sa.select(JOB_RUNS.c.stages)
    .where(
        JOB_RUNS.c.owner == sa.bindparam("its_owner"),
        JOB_RUNS.c.template == sa.bindparam("its_template"),
        JOB_RUNS.c.stages != "[]",
    )
    .order_by(JOB_RUNS.c.platform.desc())
    .limit(LATEST_RUNS)
)
_SAMPLES = (
    sa.select(JOB_SAMPLES)
    .where(JOB_SAMPLES.c.platform == sa.bindparam("its_id"))
    .order_by(JOB_SAMPLES.c.ran_s)
)
_ADVANCED = (
    *("ran_s", "cpu_s", "memory_mib", "done"),
    *("samples", "sampled_s", "every_s", "finished"),
)
_ADVANCE = (
    sa.update(JOB_RUNS)
    .where(JOB_RUNS.c.platform == sa.bindparam("its_id"))
    .values({name: sa.bindparam(f"new_{name}") for name in _ADVANCED})
)
_END = (
    sa.update(JOB_RUNS)
    .where(JOB_RUNS.c.platform == sa.bindparam("its_id"))
    .values(ended_s=sa.bindparam("at"), stages=sa.bindparam("found"), samples=0)
)


def add(connection: sa.Connection, runs: Iterable[JobRun]) -> None:
    """Store new runs."""
    rows = [_row(run) for run in runs]
    if rows:
        connection.execute(sa.insert(JOB_RUNS), rows)


def of_platform(connection: sa.Connection, platform: int) -> JobRun | None:
    """Return the run of a platform; None if it has not begun."""
    return next(iter(map(_run, connection.execute(_ONE, {"its_id": platform}))), None)


def living(connection: sa.Connection, platforms: Collection[int]) -> dict[int, JobRun]:
    """Return the runs of these platforms that are not over, by platform."""
    return {
        row.platform: _run(row)
        for some in chunks(sorted(platforms))
        for row in connection.execute(_LIVING, {"ids": some})
    }


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run whose platform has ended, and which is still stored as one that goes on."""

    run: JobRun
    is_whole: bool
    """Whether its work was done."""
    ended_s: float
    samples: tuple[JobProgress, ...]
    """All its samples, oldest first, if its work was done."""


def ended(connection: sa.Connection) -> tuple[EndedRun, ...]:
    """Return runs whose platforms have ended: at most those whose samples one deletion may take."""
    found: list[EndedRun] = []
    left = THINNED_RUNS * (MOST_SAMPLES + 1)
    for row in connection.execute(_OVER, {"most": left}):
        run = _run(row)
        left -= run.samples + 1
        if left < 0:
            break
        whole = row.state == DONE
        past = samples_of(connection, run.platform) if whole else ()
        found.append(EndedRun(run, whole, row.since_s, past))
    return tuple(found)


def samples_of(connection: sa.Connection, platform: int) -> tuple[JobProgress, ...]:
    """Return the samples of a run, oldest first."""
    rows = connection.execute(_SAMPLES, {"its_id": platform})
    return tuple(_progress(row) for row in rows)


def whole_runs(
    connection: sa.Connection, owner: int, template: str
) -> list[tuple[ProfiledStage, ...]]:
    """Return the stages of an owner's newest whole runs of a template, oldest first."""
    given = {"its_owner": owner, "its_template": template}
    return [_stages(text) for text in connection.scalars(_WHOLE, given)][::-1]


def advance(connection: sa.Connection, runs: Iterable[JobRun]) -> None:
    """Store the new totals of runs, and a sample of those that are due for one.

    Samples of at most `THINNED_RUNS` runs are thinned, of those that wait longest for a new one.
    """
    given = list(runs)
    full = [run for run in given if run.samples >= MOST_SAMPLES]
    full.sort(key=lambda run: (run.sampled_s - run.now.ran_s, run.platform))
    thinned = {run.platform: _thin(connection, run) for run in full[:THINNED_RUNS]}
    rows, samples = [], []
    for each in given:
        run = thinned.get(each.platform, each)
        since_s = run.now.ran_s - run.sampled_s
        if since_s > 0.0 and since_s >= run.every_s and run.samples < MOST_SAMPLES:
            samples.append({"platform": run.platform, **asdict(run.now)})
            now = replace(run.now, memory_mib=0.0)
            run = replace(run, now=now, samples=run.samples + 1, sampled_s=run.now.ran_s)
        row = _row(run)
        rows.append({"its_id": run.platform} | {f"new_{name}": row[name] for name in _ADVANCED})
    if samples:
        connection.execute(sa.insert(JOB_SAMPLES), samples)
    if rows:
        connection.execute(_ADVANCE, rows)


def end(
    connection: sa.Connection, runs: Iterable[tuple[EndedRun, Sequence[ProfiledStage]]]
) -> None:
    """Store the stages of runs that are over, and delete their samples."""
    rows = [
        {"its_id": ended.run.platform, "at": ended.ended_s, "found": _text(stages)}
        for ended, stages in runs
    ]
    if not rows:
        return
    connection.execute(_END, rows)
    for some in chunks([row["its_id"] for row in rows]):
        connection.execute(sa.delete(JOB_SAMPLES).where(JOB_SAMPLES.c.platform.in_(some)))


def _thin(connection: sa.Connection, run: JobRun) -> JobRun:
    """Delete every second sample; the next one keeps its memory."""
    samples = samples_of(connection, run.platform)
    gone, kept = samples[:-1][::-2][::-1], samples[::-2][::-1]
    for some in chunks([sample.ran_s for sample in gone]):
        connection.execute(
            sa.delete(JOB_SAMPLES).where(
                JOB_SAMPLES.c.platform == run.platform, JOB_SAMPLES.c.ran_s.in_(some)
            )
        )
    pairs = zip(gone[::-1], kept[::-1], strict=False)
    grown = [
        {"its_id": run.platform, "at": after.ran_s, "most": before.memory_mib}
        for before, after in pairs
        if before.memory_mib > after.memory_mib
    ]
    if grown:
        update = sa.update(JOB_SAMPLES).where(
            JOB_SAMPLES.c.platform == sa.bindparam("its_id"),
            JOB_SAMPLES.c.ran_s == sa.bindparam("at"),
        )
        connection.execute(update.values(memory_mib=sa.bindparam("most")), grown)
    return replace(run, samples=len(kept), every_s=run.sampled_s / max(len(kept), 1))


_PROGRESS_NAMES = tuple(entry.name for entry in fields(JobProgress))
_PLAIN_NAMES = (
    *("platform", "owner", "template", "ended_s"),
    *("samples", "sampled_s", "every_s", "from_runs"),
)


def _row(run: JobRun) -> dict[str, Any]:
    return {
        **{name: getattr(run, name) for name in _PLAIN_NAMES},
        **asdict(run.now),
        "finished": json.dumps(sorted(run.finished)),
        "stages": _text(run.stages),
        "profile": _text(run.profile),
    }


def _run(row: sa.Row[Any]) -> JobRun:
    return JobRun(
        **{name: getattr(row, name) for name in _PLAIN_NAMES},
        now=_progress(row),
        finished=frozenset(json.loads(row.finished)),
        stages=_stages(row.stages),
        profile=_stages(row.profile),
    )


def _progress(row: sa.Row[Any]) -> JobProgress:
    return JobProgress(**{name: getattr(row, name) for name in _PROGRESS_NAMES})


def _text(stages: Sequence[ProfiledStage]) -> str:
    return json.dumps([asdict(stage) for stage in stages], allow_nan=False)


def _stages(text: str) -> tuple[ProfiledStage, ...]:
    return tuple(ProfiledStage(**stage) for stage in json.loads(text))
