"""What the jobs and services of a market need in the coming cycle, and those without a utility.

# Note [VMs without a utility]

A VM of no job and no service has no utility. It is *plain*: it keeps its place, and gets a part of
its size before jobs and services divide the rest. So do VMs of applications about which too little
is known:

- a job without stages, without a goal after its start, with no work left although its VM runs
  (it reported more work than it has), or with a stage that may use no CPU
- a service without a goal, without measured requests (its monitor is silent), or with more requests
  than all its VMs could answer

They are plain until the next cycle in which the numbers are there. A stage whose least speed is
above its greatest one counts as one with both equal.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_ROW, rows_of
from merkatd.market.market_view import MarketView


@dataclass(frozen=True, slots=True, eq=False)
class CycleJobs:
    """The jobs with a utility; all columns are [jobs]."""

    number: Ints
    """The applications' numbers, ascending."""
    left: Floats
    best_s: Floats
    goal_in_s: Floats
    span_s: Floats
    least_speed: Floats
    """Of a VM of the job, like the next two."""
    greatest_speed: Floats
    memory_mib: Floats
    greatest_utility: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CycleServices:
    """The services with a utility; all columns are [services]."""

    number: Ints
    requests_work: Floats
    """The work that the requests of a second take."""
    request_work: Floats
    """The work of a request."""
    goal_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CycleDemands:
    """The applications of a market."""

    jobs: CycleJobs
    services: CycleServices
    job: Ints
    """[vms of the view]: the row of the VM's job, or -1."""
    service: Ints
    """[vms of the view]: the row of the VM's service, or -1."""
    unclear: dict[int, str]
    """By number: why an application has no utility in this cycle."""
    overloaded: frozenset[int]
    """The numbers of services with more requests than all their VMs could answer."""


def read_demands(
    snapshot: Snapshot, view: MarketView, saved: Ints, cycle_s: float, cpu: int
) -> CycleDemands:
    """Return the demands of applications with VMs in the view.

    `saved` are the rows of the snapshot's VMs that are saved away from hosts and wait.
    """
    application = snapshot.vms.application[view.vms]
    numbers = np.concatenate([application, snapshot.vms.application[saved]])
    known, count = np.unique(numbers[numbers != NO_ROW], return_counts=True)
    unclear: dict[int, str] = {}
    jobs = _jobs(snapshot, known, count, cycle_s, unclear)
    has = application != NO_ROW
    most = np.zeros(len(known))
    np.add.at(most, np.searchsorted(known, application[has]), view.size[has, cpu])
    services, overloaded = _services(snapshot, known, most, unclear)
    return CycleDemands(
        jobs=jobs,
        services=services,
        job=rows_of(jobs.number, application),
        service=rows_of(services.number, application),
        unclear=unclear,
        overloaded=overloaded,
    )


def _jobs(
    snapshot: Snapshot, known: Ints, count: Ints, cycle_s: float, unclear: dict[int, str]
) -> CycleJobs:
    """Return the jobs with a utility. `count` is the number of VMs of each known application.

    This does for all jobs together what `job_progress.py` does for one.
    """
    table = snapshot.jobs
    each = _stages_of_jobs(snapshot, cycle_s)
    span_s = table.goal_s - table.submitted_s
    goal_in_s = table.goal_s - snapshot.now_s
    clear = np.isin(table.application, known)
    for why, wrong in (
        ("its work is unknown", each.stages == 0),
        ("it has no goal after its start", ~(span_s > 0)),
        ("it has reported all of its work", each.left <= 0),
        ("a stage of it may use no CPU", ~np.isfinite(each.best_s)),
    ):
        for number in table.application[clear & wrong].tolist():
            unclear[number] = why
        clear &= ~wrong
    rows = np.flatnonzero(clear)
    rows = rows[np.argsort(table.application[rows], kind="stable")]
    vms = count[np.searchsorted(known, table.application[rows])]
    return CycleJobs(
        number=table.application[rows],
        left=each.left[rows],
        best_s=each.best_s[rows],
        goal_in_s=goal_in_s[rows],
        span_s=span_s[rows],
        least_speed=each.least_speed[rows] / vms,
        greatest_speed=each.greatest_speed[rows] / vms,
        memory_mib=each.memory_mib[rows] / vms,
        greatest_utility=(goal_in_s[rows] - each.best_s[rows]) / span_s[rows],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _StageSums:
    """What the stages of each job need; all columns are [jobs]."""

    stages: Ints
    left: Floats
    best_s: Floats
    least_speed: Floats
    greatest_speed: Floats
    memory_mib: Floats


def _stages_of_jobs(snapshot: Snapshot, cycle_s: float) -> _StageSums:
    """Return the rest of each job's work, and its needs in a cycle (Eq. 3 to 6)."""
    jobs, stages, count = snapshot.jobs, snapshot.stages, len(snapshot.jobs)
    own = np.flatnonzero(stages.job != NO_ROW)
    job, work, greatest = stages.job[own], stages.work[own], stages.greatest_speed[own]
    done = np.maximum(np.nan_to_num(jobs.work_done), 0.0)
    left = np.clip(_sums_so_far(work, job) - done[job], 0.0, work)
    times = np.full(len(left), np.inf)
    np.divide(left, greatest, out=times, where=greatest > 0)
    times[left == 0] = 0.0
    with np.errstate(invalid="ignore"):
        begins = _sums_so_far(times, job) - times
    inside = (left > 0) & ~(begins >= cycle_s)
    least = np.minimum(stages.least_speed[own], greatest)
    needs = []
    for column in (least, greatest, stages.memory_mib[own]):
        most = np.zeros(count)
        np.maximum.at(most, job[inside], column[inside])
        needs.append(most)
    total = np.zeros((2, count))
    np.add.at(total[0], job, left)
    np.add.at(total[1], job, times)
    return _StageSums(np.bincount(job, minlength=count), *total, *needs)


def _sums_so_far(values: Floats, group: Ints) -> Floats:
    """Return the sum of each value and those before it in its group; groups are adjacent."""
    sums = np.zeros(len(values))
    position = np.arange(len(group))
    first = np.searchsorted(group, group)
    for depth in range(int((position - first).max(initial=0)) + 1):
        later = position - first >= depth
        sums[later] += values[(position - depth)[later]]
    return sums


def _services(
    snapshot: Snapshot, known: Ints, most: Floats, unclear: dict[int, str]
) -> tuple[CycleServices, frozenset[int]]:
    """Return the services with a utility, and the numbers of the overloaded ones.

    `most` is the power that all VMs of the application could use, for each known number.
    """
    table = snapshot.services
    here = np.isin(table.application, known)
    base = table.arrivals_per_s * table.work_per_request
    able = np.zeros(len(table))
    able[here] = most[np.searchsorted(known, table.application[here])]
    whys: tuple[tuple[str, Bools], ...] = (
        ("it has no goal for its response time", ~(table.response_goal_s > 0)),
        ("its requests are not measured", ~(base >= 0) | ~(table.work_per_request > 0)),
        ("it gets more requests than its VMs can answer", base >= able),
    )
    clear = here.copy()
    overloaded = here & ~(whys[0][1] | whys[1][1]) & whys[2][1]
    for why, wrong in whys:
        for number in table.application[clear & wrong].tolist():
            unclear[number] = why
        clear &= ~wrong
    rows = np.flatnonzero(clear)
    rows = rows[np.argsort(table.application[rows], kind="stable")]
    services = CycleServices(
        number=table.application[rows],
        requests_work=base[rows],
        request_work=table.work_per_request[rows],
        goal_s=table.response_goal_s[rows],
    )
    return services, frozenset(table.application[overloaded].tolist())
