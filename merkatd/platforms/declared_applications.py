"""The tables of applications: what platforms declare, with their times, progress and measurements.

# Note [Cost of the tables]

Each period reads them. A template never changes, so the declaration of a platform is looked up once
and kept for as long as the platform lives. A period then reads the ids of living platforms, and the
progress of those that declare something, but no template.

# Note [The work done by a job]

1. The part that its controller reports, or else that its monitors measure now.
2. Without both, the part that was measured last: a daemon that starts anew has no measurement yet.
3. Without any, the CPU time that it got. That never reaches the whole work, as CPU time proves no
   end: a strategy would give nothing more to a job whose stages are stated too small.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Final, NamedTuple

import numpy as np
import sqlalchemy as sa

from merkatd.cluster.applications import (
    NO_APPLICATIONS,
    ApplicationTables,
    Jobs,
    Replicated,
    Services,
    Stages,
)
from merkatd.cluster.columns import Floats, Ints
from merkatd.database.base.transactions import Transactions
from merkatd.database.fleets import job_run_store
from merkatd.database.fleets.job_run_store import JobRun
from merkatd.database.fleets.platform_progress import (
    PlatformProgress,
    living_ids,
    progress,
    templates,
)
from merkatd.platforms.declarations.application_terms import (
    JobTerms,
    ReplicatedTerms,
    ServiceTerms,
)
from merkatd.platforms.lifecycle.application_state import (
    DeclaredTerms,
    declared_terms,
    done_part,
    goal_s,
    measured_service,
)
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.profiles.job_runs import MeasuredJob, stage_terms
from merkatd.platforms.profiles.service_work import ServiceWork
from merkatd.platforms.rules.made_iterations import measured_vms
from merkatd.protocol.platform_messages import Readings
from merkatd.scheduler.phases.announce import Announcement

_UNITS_PER_CORE: Final = 100.0
"""Tables have percent of a core, templates whole cores."""
_MOST_BY_CPU: Final = 0.99
"""The most of its work that a job has done by its CPU time."""


class _Application(NamedTuple):
    id: int
    """The id of its account, which its VMs have in the snapshot."""
    now: PlatformProgress
    declared: DeclaredTerms
    readings: Readings
    run: JobRun | None = None


class DeclaredApplications:
    """Reads what living platforms declare; see Note [Cost of the tables]."""

    def __init__(self, readings: Callable[[int], Readings]) -> None:
        """Begin without any known platform.

        `readings` returns those of a platform's monitors; any thread may call it.
        """
        self._readings = readings
        self._known: Mapping[int, DeclaredTerms | None] = {}
        """By id of each living platform: its declaration; None if it declares nothing."""
        self._services: Mapping[int, int] = {}
        """By id of each living platform with a service: the id that its VMs have as application."""
        self._jobs: Mapping[int, _Application] = {}
        """By id of each living platform with a job."""
        self._work = ServiceWork()

    async def tables(self, database: Transactions) -> ApplicationTables:
        """Return the declarations of all living platforms."""
        return await database.read(self._read)

    def _read(self, connection: sa.Connection) -> ApplicationTables:
        """Return the tables; a thread of the database makes them, beside the event loop."""
        ids, known = living_ids(connection), self._known
        texts = templates(connection, [each for each in ids if each not in known])
        new = {platform: declared_terms(parsed(text)) for platform, text in texts.items()}
        now_known = {each: known[each] if each in known else new.get(each) for each in ids}
        self._known = now_known
        declaring = {each: terms for each, terms in now_known.items() if terms is not None}
        jobs = [each for each, its in declaring.items() if isinstance(its.terms, JobTerms)]
        runs = job_run_store.living(connection, jobs) if jobs else {}
        applications = [
            _profiled(
                _Application(
                    *(now.account, now, declaring[now.id], self._readings(now.id)), runs.get(now.id)
                )
            )
            for now in progress(connection, declaring)
            if now.account is not None
        ]
        self._jobs = {
            each.now.id: each for each in applications if isinstance(each.declared.terms, JobTerms)
        }
        self._services = {
            each.now.id: each.id
            for each in applications
            if isinstance(each.declared.terms, ServiceTerms)
        }
        if not applications:
            return NO_APPLICATIONS
        return tables_of(applications, self._work.work_per_request)

    def jobs(self) -> dict[int, MeasuredJob]:
        """Return the jobs of the last period by platform, as they are measured now."""
        return {
            platform: _measured(job, self._readings(platform))
            for platform, job in self._jobs.items()
        }

    def after_period(self, announcement: Announcement) -> None:
        """Compare what services use with what they answer."""
        throughput: dict[int, float] = {}
        for platform, application in self._services.items():
            declared = self._known.get(platform)
            if declared is not None:
                now = measured_service(declared, self._readings(platform))
                requests_per_s = now.throughput_per_s
                throughput[application] = nan if requests_per_s is None else requests_per_s
        self._work.note(announcement.seen.snapshot, throughput)


def _measured(job: _Application, readings: Readings) -> MeasuredJob:
    done, steps = done_part(job.declared, job.now.report, readings), job.declared.ends_by_iterations
    if steps is None:
        return MeasuredJob(job.id, done)
    vms = measured_vms(readings, steps)
    some = vms.ends.finished or (job.run is not None and job.run.finished)
    return MeasuredJob(job.id, done, vms, steps if some else None)


def _profiled(job: _Application) -> _Application:
    """Return a job without stages with those from its earlier runs; any other one as it is."""
    terms = job.declared.terms
    if job.run is None or not isinstance(terms, JobTerms) or terms.stages:
        return job
    terms = replace(terms, stages=stage_terms(job.run.profile))
    return job._replace(declared=replace(job.declared, terms=terms))


def tables_of(
    declared: Sequence[_Application], profiled: Callable[[int], float | None]
) -> ApplicationTables:
    """Return the tables of these applications.

    `profiled` returns the estimated core-seconds of a service's request, by its id.
    """
    rows = sorted(declared, key=lambda each: each.id)
    return ApplicationTables(
        jobs=_jobs(rows),
        stages=_stages(rows),
        services=_services(rows, profiled),
        replicated=_replicated(rows),
    )


def _jobs(rows: Sequence[_Application]) -> Jobs:
    found = [(each, each.declared.terms) for each in rows]
    jobs = [(each, terms) for each, terms in found if isinstance(terms, JobTerms)]
    return Jobs(
        application=_whole([each.id for each, _ in jobs]),
        submitted_s=_numbers([each.now.submitted_s for each, _ in jobs]),
        started_s=_numbers([each.now.first_ran_s for each, _ in jobs]),
        goal_s=_numbers(
            [goal_s(terms, each.now.submitted_s, each.now.deadline_s) for each, terms in jobs]
        ),
        work_done=_numbers([_work_done(each, terms) for each, terms in jobs]),
    )


def _work_done(each: _Application, terms: JobTerms) -> float:
    """See Note [The work done by a job]."""
    part = done_part(each.declared, each.now.report, each.readings)
    if part is None and each.run is not None:
        part = each.run.now.done
        if part is None:
            return min(each.run.now.cpu_s, _MOST_BY_CPU * terms.work) * _UNITS_PER_CORE
    return (part or 0.0) * terms.work * _UNITS_PER_CORE


def _stages(rows: Sequence[_Application]) -> Stages:
    terms = [each.declared.terms for each in rows if isinstance(each.declared.terms, JobTerms)]
    stages = [(job, stage) for job, its in enumerate(terms) for stage in its.stages]
    return Stages(
        job=_whole([job for job, _ in stages]),
        work=_numbers([stage.work * _UNITS_PER_CORE for _, stage in stages]),
        least_speed=_numbers([stage.least_speed for _, stage in stages]),
        greatest_speed=_numbers([stage.greatest_speed for _, stage in stages]),
        memory_mib=_numbers([stage.memory_mib for _, stage in stages]),
    )


def _services(rows: Sequence[_Application], profiled: Callable[[int], float | None]) -> Services:
    found = [(each, each.declared.terms) for each in rows]
    services = [(each, terms) for each, terms in found if isinstance(terms, ServiceTerms)]
    seen = [measured_service(each.declared, each.readings) for each, _ in services]
    work = [
        profiled(each.id) if now.work_per_request is None else now.work_per_request
        for now, (each, _) in zip(seen, services, strict=True)
    ]
    return Services(
        application=_whole([each.id for each, _ in services]),
        response_goal_s=_numbers([terms.response_goal_s for _, terms in services]),
        arrivals_per_s=_numbers([now.arrivals_per_s for now in seen]),
        work_per_request=_numbers(work) * _UNITS_PER_CORE,
        response_s=_numbers([now.response_s for now in seen]),
    )


def _replicated(rows: Sequence[_Application]) -> Replicated:
    found = [(each.id, each.declared.terms) for each in rows]
    tasks = [(id_, terms) for id_, terms in found if isinstance(terms, ReplicatedTerms)]
    return Replicated(
        application=_whole([id_ for id_, _ in tasks]),
        needed=_whole([terms.tasks for _, terms in tasks]),
        run_time_s=_numbers([terms.run_time_s for _, terms in tasks]),
        reliability=_numbers([terms.reliability for _, terms in tasks]),
    )


def _whole(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _numbers(values: Sequence[float | None]) -> Floats:
    return np.array([nan if value is None else value for value in values], dtype=np.float64)
