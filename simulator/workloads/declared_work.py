"""What applications declare of their work: jobs with stages and goals, services with arrivals.

Each job has one VM; a service has as many as name its application as their owner. Work and speeds
are in the units of the snapshot's tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from merkatd.cluster import Floats, Ints, VmKind
from merkatd.cluster.applications import Jobs, Services, Stages
from merkatd.cluster.columns import no_rows
from simulator.workloads.vm_requests import RequestsError, VmRequests


@dataclass(frozen=True, slots=True, eq=False)
class ArrivalCurve:
    """The arrivals of a service's requests: a constant rate from each time to the next."""

    at_s: Floats
    per_s: Floats

    def rate(self, now_s: float) -> float:
        """Return the rate at this time; before the first time, the first one."""
        at = int(np.searchsorted(self.at_s, now_s, side="right")) - 1
        return float(self.per_s[max(at, 0)])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class DeclaredWork:
    """The applications of a run. The work done and the measured values change meanwhile."""

    jobs: Jobs = field(default_factory=lambda: no_rows(Jobs))
    stages: Stages = field(default_factory=lambda: no_rows(Stages))
    services: Services = field(default_factory=lambda: no_rows(Services))
    arrivals: Mapping[int, ArrivalCurve] = field(default_factory=dict)
    """By service: its curve. Without one, the rate of the table holds at all times."""

    def __post_init__(self) -> None:
        if (self.stages.greatest_speed <= 0).any():
            raise RequestsError("stages.greatest_speed: must be greater than 0")
        counts = np.bincount(self.stages.job, minlength=len(self.jobs))
        if not counts.all():
            raise RequestsError(f"stages: job {int(np.argmin(counts))} must have at least one")


NO_WORK = DeclaredWork()


def one_stage(work: Floats, greatest_speed: Floats, memory_mib: Floats) -> Stages:
    """Return the stages of jobs with a single one each."""
    count = len(work)
    return Stages(
        job=np.arange(count),
        work=work,
        least_speed=np.zeros(count),
        greatest_speed=greatest_speed,
        memory_mib=memory_mib,
    )


def declared_jobs(
    submitted_s: Floats, goal_s: Floats, stages: Stages
) -> tuple[VmRequests, DeclaredWork]:
    """Return jobs and a VM for each, which is as large as the largest stage.

    The number of a job's application is its row.
    """
    count = len(submitted_s)
    application = np.arange(count)
    size, floor = np.zeros((count, 2)), np.zeros((count, 2))
    np.maximum.at(size[:, 0], stages.job, stages.greatest_speed)
    np.maximum.at(size[:, 1], stages.job, stages.memory_mib)
    np.maximum.at(floor[:, 0], stages.job, np.minimum(stages.least_speed, stages.greatest_speed))
    floor[:, 1] = size[:, 1]
    work = DeclaredWork(
        jobs=Jobs(
            application=application,
            submitted_s=submitted_s,
            started_s=np.full(count, np.nan),
            goal_s=goal_s,
            work_done=np.zeros(count),
        ),
        stages=stages,
    )
    requests = VmRequests(
        arrival_s=submitted_s,
        lifetime_s=best_times(work),
        size=size,
        floor=floor,
        kind=np.full(count, int(VmKind.BATCH)),
        owner=application,
    )
    return requests, work


def best_times(work: DeclaredWork) -> Floats:
    """Return [jobs]: the time that each takes at its greatest speeds."""
    stages = work.stages
    times = np.zeros(len(work.jobs))
    np.add.at(times, stages.job, stages.work / stages.greatest_speed)
    return times


def service_requests(application: int, instances: int, size: Floats) -> VmRequests:
    """Return the VMs of a service, which are there from the begin and have no end."""
    wide = np.tile(size, (instances, 1))
    floor = wide.copy()
    floor[:, 0] = 0.0
    return VmRequests(
        arrival_s=np.zeros(instances),
        lifetime_s=np.full(instances, np.inf),
        size=wide,
        floor=floor,
        owner=np.full(instances, application),
    )


def vms_of_jobs(work: DeclaredWork, owner: Ints) -> Ints:
    """Return [vms]: the row of each VM's job, -1 without one. Raise RequestsError for two VMs."""
    rows = np.full(len(owner), -1)
    applications = work.jobs.application
    if not len(applications):
        return rows
    order = np.argsort(applications, kind="stable")
    at = np.minimum(np.searchsorted(applications, owner, sorter=order), len(applications) - 1)
    found = order[at]
    own = applications[found] == owner
    rows[own] = found[own]
    counts = np.bincount(rows[own], minlength=len(applications))
    if (counts != 1).any():
        row = int(np.argmax(counts != 1))
        raise RequestsError(
            f"owner: application {applications[row]} is a job, which has one VM (got {counts[row]})"
        )
    return rows
