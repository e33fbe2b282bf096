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
from merkatd.placement.utility.job_progress import CycleNeeds, JobStages, cycle_needs


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
    table, stages = snapshot.jobs, snapshot.stages
    first = np.searchsorted(stages.job, np.arange(len(table) + 1))
    rows: list[tuple[float, ...]] = []
    numbers: list[int] = []
    vms = dict(zip(known.tolist(), count.tolist(), strict=True))
    for row in np.flatnonzero(np.isin(table.application, known)).tolist():
        number = int(table.application[row])
        part = slice(first[row], first[row + 1])
        own = JobStages(
            work=stages.work[part],
            least_speed=stages.least_speed[part],
            greatest_speed=stages.greatest_speed[part],
            memory_mib=stages.memory_mib[part],
        )
        done = float(np.nan_to_num(table.work_done[row]))
        left, best_s = float(own.left(done).sum()), own.best_s(done)
        goal_in_s = float(table.goal_s[row]) - snapshot.now_s
        span_s = float(table.goal_s[row] - table.submitted_s[row])
        why = _why_unclear_job(own, left, best_s, span_s)
        if why:
            unclear[number] = why
            continue
        needs = cycle_needs(own, done, cycle_s)
        numbers.append(number)
        rows.append((left, best_s, goal_in_s, span_s, *_of_vm(needs, vms[number])))
    columns = np.array(rows, dtype=float).reshape(-1, 7).T
    order = np.argsort(np.array(numbers, dtype=np.int64), kind="stable")
    left, best, goal, span, least, greatest, memory = np.ascontiguousarray(columns[:, order])
    return CycleJobs(
        number=np.array(numbers, dtype=np.int64)[order],
        left=left,
        best_s=best,
        goal_in_s=goal,
        span_s=span,
        least_speed=least,
        greatest_speed=greatest,
        memory_mib=memory,
        greatest_utility=(goal - best) / span,
    )


def _of_vm(needs: CycleNeeds, vms: int) -> tuple[float, float, float]:
    """Return the even part of a job's needs for each of its VMs."""
    return needs.least_speed / vms, needs.greatest_speed / vms, needs.memory_mib / vms


def _why_unclear_job(own: JobStages, left: float, best_s: float, span_s: float) -> str:
    """Return why the job has no utility, or ""."""
    if not len(own.work):
        return "its work is unknown"
    if not span_s > 0:
        return "it has no goal after its start"
    if left <= 0:
        return "it has reported all of its work"
    if not np.isfinite(best_s):
        return "a stage of it may use no CPU"
    return ""


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
