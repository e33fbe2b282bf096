"""Batch frameworks that share a cloud by price (section 3.2.2), as a decider of the kernel.

The cloud is a single host, as all VMs have one core. The workers of a framework are the VMs of an
application: the decider wishes more of them, ends those that the framework releases, and states
what each gets of its core.
"""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster import Floats, Ints, Plan, Scale, Terminate
from merkatd.market.share import share
from simulator.kernel.data_center import DataCenter, KernelRhythm, tree_of_hosts
from simulator.kernel.kernel_deciders import KernelMoment, KernelOrders, StatedAmounts
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase, KernelState
from simulator.market.batch_frameworks import Framework, FrameworkSetup, FrameworkView
from simulator.model.simulated_cloud import CORE, OperationCosts
from simulator.workloads.vm_requests import DAY_S, VmRequests

_MOST_TURNS = 25
"""A framework requests at most so many workers as the cloud holds, times this number."""
_RUNNING = int(GuestPhase.RUNNING)


class WorkersError(RuntimeError):
    """Raised if a framework requests more workers than a run provides for."""


class _FrameworkMarket:
    """The market, the controllers of the frameworks, and their batch systems."""

    history_samples = 0

    def __init__(self, frameworks: Sequence[Framework], setting: FrameworkSetup) -> None:
        self._frameworks, self._setting = frameworks, setting
        self.rows_each = _MOST_TURNS * max(setting.vms, 1)
        """The VMs of the first framework come first, then as many of the second one."""
        self._looked_s = 0.0
        self._next_s = 0.0
        for at, framework in enumerate(frameworks):
            self._add(at, framework.fixed or 0)

    def _add(self, at: int, count: int) -> None:
        """Add workers to a framework. The kernel starts spare VMs in the same order."""
        framework = self._frameworks[at]
        first = at * self.rows_each + framework.requested
        framework.requested += count
        if framework.requested > self.rows_each:
            raise WorkersError(
                f"{framework.name}: must request at most {self.rows_each} workers in a run"
                f" (got {framework.requested})"
            )
        framework.workers += range(first, first + count)

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Start new workers; at the looks of the batch systems, let jobs end and begin.

        A worker that needs no time to start is there before the look at the same moment: the kernel
        decides again once it runs.
        """
        now_s, pending = moment.state.now_s, moment.pending
        if len(pending):
            return KernelOrders(pending, np.zeros(len(pending), dtype=np.int64))
        if now_s < self._next_s:
            return KernelOrders()
        self._next_s = now_s + self._setting.tick_s
        self._let_work(moment.state)
        if now_s % self._setting.period_s:
            return KernelOrders()
        return self._period(moment)

    def _let_work(self, state: KernelState) -> None:
        since_s, now_s = self._looked_s, state.now_s
        self._looked_s = now_s
        for at, framework in enumerate(self._frameworks):
            if framework.ready:
                framework.speed = float(state.speed[next(iter(framework.ready))])
                framework.work(since_s, now_s)
            if len(framework.ready) < len(framework.workers):
                first = at * self.rows_each
                phases = state.phase[first : first + framework.requested]
                framework.ready = frozenset((first + np.flatnonzero(phases == _RUNNING)).tolist())
            framework.begin(now_s)

    def _period(self, moment: KernelMoment) -> KernelOrders:
        """Let controllers act on the announced price, then compute new shares."""
        setting, now_s = self._setting, moment.state.now_s
        bids = sum(framework.bid for framework in self._frameworks)
        price = max(bids / setting.units, setting.reserve)
        steps, wishes = list[Terminate](), list[Scale]()
        for at, framework in enumerate(self._frameworks):
            if framework.fixed is not None:
                continue
            released, more = framework.control(price, setting, now_s)
            self._add(at, more)
            steps += [
                Terminate(period=moment.period, vm=vm, reason="its framework has less work")
                for vm in released
            ]
            if more:
                wishes.append(
                    Scale(
                        application=at,
                        replicas=len(framework.workers),
                        reason="its framework has more work",
                    )
                )
        given = self._divide()
        for framework, units in zip(self._frameworks, given.tolist(), strict=True):
            framework.seen.append(_view(framework, now_s, units / setting.units))
        workers = [np.array(each.workers, dtype=np.int64) for each in self._frameworks]
        return KernelOrders(
            plan=Plan(tuple(steps)),
            given=_stated(workers, given),
            wishes=tuple(wishes),
        )

    def _divide(self) -> Floats:
        """Return the units of CPU of each framework (Eq. 1)."""
        frameworks = self._frameworks
        bids = np.array([max(framework.bid, 1e-9) for framework in frameworks])
        caps = np.array([CORE * len(framework.workers) for framework in frameworks])
        pool, none = np.zeros(len(frameworks), dtype=np.int64), np.zeros(len(frameworks))
        return share(bids, none, caps, pool, np.array([self._setting.units])).allocation


def _stated(workers: Sequence[Ints], given: Floats) -> StatedAmounts:
    """Return what each worker gets: an equal part of what its framework gets."""
    counts = np.array([len(each) for each in workers])
    parts = np.divide(given, counts, out=np.zeros(len(given)), where=counts > 0)
    return StatedAmounts(np.concatenate(workers), np.repeat(parts, counts)[:, np.newaxis])


def _view(framework: Framework, now_s: float, part: float) -> FrameworkView:
    load = framework.load(now_s)
    return FrameworkView(
        now_s,
        len(framework.workers),
        len(framework.running),
        load.waiting,
        load.useful,
        part,
    )


def simulate(frameworks: Sequence[Framework], setting: FrameworkSetup) -> None:
    """Run the frameworks until all their jobs are done."""
    span_s = _longest_s(frameworks, setting)
    market = _FrameworkMarket(frameworks, setting)
    rows = market.rows_each
    spare = np.ones(rows * len(frameworks), dtype=bool)
    for at, framework in enumerate(frameworks):
        spare[at * rows : at * rows + (framework.fixed or 0)] = False
    requests = VmRequests(
        resources=("cpu",),
        arrival_s=np.zeros(len(spare)),
        lifetime_s=np.full(len(spare), np.inf),
        size=np.full((len(spare), 1), CORE),
        floor=np.zeros((len(spare), 1)),
        owner=np.repeat(np.arange(len(frameworks)), rows),
        spare=spare,
    )
    center = DataCenter(
        hosts=tree_of_hosts((1,), [setting.units]),
        costs=OperationCosts(boot_s=setting.boot_s),
        rhythm=KernelRhythm(period_s=setting.tick_s, monitor_s=span_s, decide_at_events=True),
    )
    run = KernelRun(center, requests, market, span_s=span_s)
    run.state.saved[~spare] = True  # fixed workers have been there before, and continue at once
    run.run_until(lambda: all(framework.over for framework in frameworks))


def _longest_s(frameworks: Sequence[Framework], setting: FrameworkSetup) -> float:
    """Return a time that no run exceeds in which jobs make progress."""
    jobs = [job for framework in frameworks for job in framework.coming]
    workers = min(
        (framework.fixed or max(setting.vms, 1) for framework in frameworks),
        default=1,
    )
    last_s = max((job.submit_s for job in jobs), default=0.0)
    work_s = sum(job.run_s * job.workers for job in jobs) / workers
    longest_s = max((job.run_s for job in jobs), default=0.0)
    return DAY_S + 10.0 * (last_s + work_s + longest_s)
