"""The work of declared applications: what their guests demand, have done, and answer.

# Note [Stages on the kernel]

The kernel counts the work of a guest in seconds at full speed. For a job, full speed is the
greatest speed of its present stage, so `left_s` is the time that the rest of all stages takes at
the greatest speeds, and the present stage follows from it. A guest runs to the end of its stage;
there its pace is computed anew, since the next stage may use another part of what the guest gets.

Example: stages with works 600 and 300 and greatest speeds 200 and 100 take 3 s each. With 100 the
pace is 0.5 and the first stage ends after 6 s; then the pace is 1, and the job ends after 9 s.
Used by `DeclaredLoad`.
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.applications import ApplicationTables, Jobs, Services, Stages
from merkatd.policies.service_queue import LONGEST_S, RequestCount, response_s
from simulator.kernel.kernel_state import COMPUTES, KernelState
from simulator.workloads.declared_work import DeclaredWork, vms_of_jobs
from simulator.workloads.vm_requests import VmRequests

_CPU = "cpu"
_ROUNDING_S = 1e-6
"""A stage with less time left than this has ended."""


class DeclaredLoad:
    """What the guests of a run do; those of no declared application follow their requests."""

    def __init__(self, work: DeclaredWork, requests: VmRequests, state: KernelState) -> None:
        self._work, self._requests, self._state = work, requests, state
        self._job = vms_of_jobs(work, requests.owner)
        """[vms]: the row of the VM's job, or -1."""
        self._vm = np.zeros(len(work.jobs), dtype=np.int64)
        own = np.flatnonzero(self._job >= 0)
        self._vm[self._job[own]] = own
        self._cpu = requests.resources.index(_CPU) if _CPU in requests.resources else None
        self._set_stages(work.stages)
        self._first_ran_s = np.full(len(work.jobs), np.nan)
        self._queues = [RequestCount() for _ in work.services.application.tolist()]
        self._served_s = 0.0

    def _set_stages(self, stages: Stages) -> None:
        jobs = len(self._work.jobs)
        self._count = np.bincount(stages.job, minlength=jobs)
        most = int(self._count.max()) if jobs else 1
        column = np.arange(len(stages)) - (np.cumsum(self._count) - self._count)[stages.job]
        work, speed = np.zeros((jobs, most)), np.ones((jobs, most))
        work[stages.job, column] = stages.work
        speed[stages.job, column] = stages.greatest_speed
        times, rest = work / speed, np.cumsum(work[:, ::-1], axis=1)[:, ::-1]
        self._speed = speed
        self._later_s = np.cumsum(times[:, ::-1], axis=1)[:, ::-1] - times
        """[jobs, stages]: the time at the greatest speeds that is left when a stage ends."""
        self._later_s[np.arange(most) >= self._count[:, np.newaxis]] = -np.inf
        self._later_work, self._all_work = rest - work, rest[:, 0]

    def _stage(self, jobs: Ints, left_s: Floats) -> Ints:
        """Return the present stage of jobs."""
        ended = (self._later_s[jobs] >= left_s[:, np.newaxis] - _ROUNDING_S).sum(axis=1)
        stage: Ints = np.minimum(ended, self._count[jobs] - 1)
        return stage

    # -- guests -------------------------------------------------------------------------------

    def demand(self, vms: Ints, at_s: float) -> Floats:
        """Return [vms, resources]: what guests that compute demand at most."""
        demand = self._requests.demand(vms, at_s)
        own = np.flatnonzero(self._job[vms] >= 0)
        if len(own):
            jobs = self._job[vms[own]]
            stage = self._stage(jobs, self._state.work_left(vms[own]))
            demand[own, self._cpu] = self._speed[jobs, stage]
        return demand

    def paces(self, vms: Ints) -> Floats:
        """Return [vms]: the part of their CPU demand that guests get."""
        paces = np.ones(len(vms))
        if self._cpu is None:
            return paces
        given = self._state.given[vms, self._cpu]
        bound = np.flatnonzero(np.isfinite(given))
        if len(bound):
            demand = self.demand(vms[bound], self._state.now_s)[:, self._cpu]
            lacks = given[bound] < demand
            paces[bound[lacks]] = given[bound[lacks]] / demand[lacks]
        return paces

    def end_times(self, vms: Ints) -> Floats:
        """Return when VMs end, or their stages, at their speed; their work counts until now."""
        ends = self._state.end_times(vms)
        own = np.flatnonzero((self._job[vms] >= 0) & (self._state.speed[vms] > 0))
        if len(own):
            rows = vms[own]
            jobs, left_s = self._job[rows], self._state.left_s[rows]
            later_s = self._later_s[jobs, self._stage(jobs, left_s)]
            rest_s = np.maximum(left_s - later_s, 0.0)
            with np.errstate(over="ignore"):
                ends[own] = self._state.now_s + rest_s / self._state.speed[rows]
        return ends

    def go_on(self, vms: Ints) -> Ints:
        """Return those of the VMs that have more stages to do."""
        more = (self._job[vms] >= 0) & (self._state.work_left(vms) > _ROUNDING_S)
        return vms[more]

    # -- tables -------------------------------------------------------------------------------

    def tables(self, vms: Ints) -> ApplicationTables:
        """Return the applications of these VMs, as the daemon would measure them."""
        rows = np.unique(self._job[vms])
        all_jobs = self._work.jobs
        if len(rows) and rows[0] < 0:
            rows = rows[1:]
        rows = rows[np.argsort(all_jobs.application[rows], kind="stable")]
        self._note_starts(rows)
        jobs = Jobs(
            application=all_jobs.application[rows],
            submitted_s=all_jobs.submitted_s[rows],
            started_s=self._first_ran_s[rows],
            goal_s=all_jobs.goal_s[rows],
            work_done=self.work_done(rows),
        )
        return ApplicationTables(jobs=jobs, stages=self._stages(rows), services=self._services())

    def work_done(self, jobs: Ints) -> Floats:
        """Return [jobs]: the work that they have done by now."""
        left_s = self._state.work_left(self._vm[jobs])
        stage = self._stage(jobs, left_s)
        here = (left_s - self._later_s[jobs, stage]) * self._speed[jobs, stage]
        done = self._all_work[jobs] - self._later_work[jobs, stage] - here
        return np.maximum(done, 0.0)

    def _note_starts(self, jobs: Ints) -> None:
        vms = self._vm[jobs]
        new = np.isnan(self._first_ran_s[jobs]) & COMPUTES[self._state.phase[vms]]
        self._first_ran_s[jobs[new]] = self._state.started_s[vms[new]]

    def _stages(self, jobs: Ints) -> Stages:
        stages = self._work.stages
        row = np.full(len(self._work.jobs), -1)
        row[jobs] = np.arange(len(jobs))
        of = row[stages.job]
        kept = np.flatnonzero(of >= 0)
        kept = kept[np.argsort(of[kept], kind="stable")]
        return Stages(
            job=of[kept],
            work=stages.work[kept],
            least_speed=stages.least_speed[kept],
            greatest_speed=stages.greatest_speed[kept],
            memory_mib=stages.memory_mib[kept],
        )

    def _services(self) -> Services:
        """Return the services with what a monitor measures now."""
        declared, now_s = self._work.services, self._state.now_s
        passed_s, self._served_s = now_s - self._served_s, now_s
        rates, responses = list[float](), list[float]()
        for row, application in enumerate(declared.application.tolist()):
            curve = self._work.arrivals.get(application)
            rate = float(declared.arrivals_per_s[row]) if curve is None else curve.rate(now_s)
            per_s = self.power(application) / float(declared.work_per_request[row])
            queue = self._queues[row]
            most = per_s * passed_s
            queue.serve(rate, passed_s, most)
            rates.append(rate)
            responses.append(response_s(rate, queue.waiting, per_s) if per_s > 0 else LONGEST_S)
        return Services(
            application=declared.application,
            response_goal_s=declared.response_goal_s,
            arrivals_per_s=np.array(rates),
            work_per_request=declared.work_per_request,
            response_s=np.array(responses),
        )

    def power(self, application: int) -> float:
        """Return the CPU that an application's guests have for their work now."""
        state, cpu = self._state, self._cpu
        if cpu is None:
            return 0.0
        own = (self._requests.owner == application) & COMPUTES[state.phase]
        vms = np.flatnonzero(own)
        given = np.minimum(state.given[vms, cpu], self.demand(vms, state.now_s)[:, cpu])
        return float(given.sum())
