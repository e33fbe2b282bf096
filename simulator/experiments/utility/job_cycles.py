"""A run of the utility-placement paper's jobs: each cycle's utilities, and the end of each job."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from time import process_time
from typing import Any

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, rows_of
from merkatd.placement.contract import Need
from merkatd.placement.registry import strategy_named
from merkatd.placement.utility.common_utility import divide_power
from merkatd.placement.utility.powers.power_curves import job_curves, service_curves
from simulator.baselines.job_deciders import EdfJobs, FcfsJobs
from simulator.experiments.utility.paper_jobs import CYCLE_S, PaperJobs
from simulator.kernel.data_center import DataCenter
from simulator.kernel.kernel_deciders import (
    KernelDecider,
    KernelMoment,
    KernelOrders,
    StrategyDecider,
)
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase
from simulator.kernel.vm_operations import OperationTotals
from simulator.workloads.declared_work import DeclaredWork
from simulator.workloads.vm_requests import VmRequests

_ROUNDING = 1e-6
UTILITY, EDF, FCFS = "utility", "edf", "fcfs"


def decider_of(system: str, **settings: Any) -> KernelDecider:
    """Return a new decider; `settings` are those of the strategy."""
    if system == EDF:
        return EdfJobs()
    if system == FCFS:
        return FcfsJobs()
    entry = strategy_named(UTILITY)
    chosen = replace(entry.defaults, cycle_s=CYCLE_S, **settings)
    return StrategyDecider(entry, chosen, history_samples=10 if Need.HISTORY in entry.needs else 0)


class WatchedDecider:
    """A decider whose decisions are measured: utilities after each of them, and its CPU time."""

    def __init__(self, decider: KernelDecider) -> None:
        self._decider, self.history_samples = decider, decider.history_samples
        self.totals = OperationTotals()
        """Those of the run, until its present decision."""
        self.cycles: list[Mapping[str, float]] = []

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Return the decider's orders."""
        make = moment.snapshot
        shared = cache(lambda reserve: make(np.array(reserve)))
        begin_s = process_time()
        orders = self._decider.decide(
            replace(moment, snapshot=lambda reserve: shared(tuple(reserve.tolist())))
        )
        took_s = process_time() - begin_s
        snapshot = make(np.full(len(moment.state.resources), np.nan))
        its = self.totals
        begun = {
            "at_s": snapshot.now_s,
            "took_s": took_s,
            "given_way": float(its.suspensions + its.stops),
            "moved": float(its.live_migrations + its.cold_migrations),
        }
        self.cycles.append(begun | _measured(snapshot, orders))
        return orders


def _measured(snapshot: Snapshot, orders: KernelOrders) -> dict[str, float]:
    """Return what a decision means for jobs and services; NaN where no power is stated."""
    jobs, vms = snapshot.jobs, snapshot.vms
    of_job = rows_of(jobs.application, vms.application)
    measured = {"jobs": float(len(jobs))}
    if orders.given is None:
        return measured
    power = orders.given.amounts[:, 0]
    mine = of_job >= 0
    placed = mine & (power > 0)
    powers: Floats = np.zeros(len(jobs))
    np.add.at(powers, of_job[mine], power[mine])
    utilities, most = hypothetical_utilities(snapshot, powers, CYCLE_S)
    measured |= {
        "placed": float((powers > 0).sum()),
        "hypothetical": _mean(utilities),
        "hypothetical_competing": _mean(utilities[utilities < most - _ROUNDING]),
        "hypothetical_waiting": _mean(utilities[powers <= 0]),
        "job_power": float(powers.sum()),
        "placed_power_part": _part(power[placed].sum(), vms.cap[placed, 0].sum()),
        "job_demand": float(vms.cap[mine, 0].sum()),
    }
    services = snapshot.services
    for row, application in enumerate(services.application.tolist()):
        own = vms.application == application
        total = np.array([power[own].sum()])
        curve = service_curves(
            services.arrivals_per_s[[row]],
            services.work_per_request[[row]],
            services.response_goal_s[[row]],
            np.array([vms.cap[own & (vms.host != NO_HOST), 0].sum()]),
        )
        utility = float(curve.utility(total)[0])
        measured |= {
            "service": utility,
            "jobs_with_its": _mean(np.minimum(most, utility)),
            "service_power": float(total[0]),
            "response_s": float(services.response_s[row]),
            "response_goal_s": float(services.response_goal_s[row]),
        }
    return measured


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else np.nan


def _part(value: Any, of: Any) -> float:
    return float(value / of) if of > 0 else 1.0


def hypothetical_utilities(
    snapshot: Snapshot, powers: Floats, cycle_s: float
) -> tuple[Floats, Floats]:
    """Return [jobs]: their utilities at the end of the cycle if all share the present power.

    The second value has the greatest utilities that they can reach then.

    Section 4.4 of the paper, for jobs of one stage. A job that ends in the cycle has the utility of
    its end.
    """
    jobs, stages = snapshot.jobs, snapshot.stages
    span_s = jobs.goal_s - jobs.submitted_s
    speeds = np.minimum(powers, stages.greatest_speed)
    before = stages.work - jobs.work_done
    left = before - speeds * cycle_s
    goes_on = left > _ROUNDING
    goal_in_s, best_s = jobs.goal_s - snapshot.now_s - cycle_s, left / stages.greatest_speed
    curves = job_curves(left[goes_on], best_s[goes_on], goal_in_s[goes_on], span_s[goes_on])
    utilities = np.zeros(len(jobs))
    utilities[goes_on] = divide_power(curves, float(powers.sum())).utility
    ended = ~goes_on
    ends_s = snapshot.now_s + before[ended] / np.maximum(speeds[ended], _ROUNDING)
    utilities[ended] = (jobs.goal_s[ended] - ends_s) / span_s[ended]
    most = utilities.copy()
    most[goes_on] = curves.most_utility
    return utilities, most


@dataclass(frozen=True, slots=True, eq=False)
class JobCycles:
    """What a run showed."""

    cycles: Mapping[str, Floats]
    """By name: a value for each cycle."""
    ended: Ints
    """The jobs that ended, in order of their ends."""
    ended_s: Floats
    """[jobs]: when each ended; NaN before."""
    totals: OperationTotals
    jobs: PaperJobs
    now_s: float

    @property
    def utilities(self) -> Floats:
        """Return [jobs]: the utility at their ends (Eq. 2); NaN before."""
        its = self.jobs.declared.jobs
        utilities: Floats = (its.goal_s - self.ended_s) / (its.goal_s - its.submitted_s)
        return utilities

    @property
    def changes(self) -> int:
        """Return the changes of placements: suspensions, resumptions and migrations."""
        its = self.totals
        moves = its.live_migrations + its.cold_migrations
        return its.suspensions + its.stops + its.resumptions + its.continuations + moves


def run_jobs(
    center: DataCenter,
    jobs: PaperJobs,
    decider: KernelDecider,
    *,
    most_ended: int,
    seed: int = 0,
    beside: tuple[VmRequests, DeclaredWork] | None = None,
    stop: Callable[[KernelRun], bool] = lambda _run: False,
) -> JobCycles:
    """Let jobs run until so many have ended; `beside` are they with other applications."""
    requests, declared = beside or (jobs.requests, jobs.declared)
    watched = WatchedDecider(decider)
    vms = np.flatnonzero(np.isin(requests.owner, jobs.declared.jobs.application))
    last_s = float(jobs.declared.jobs.submitted_s[-1])
    run = KernelRun(center, requests, watched, span_s=last_s + 1e7, seed=seed, declared=declared)
    watched.totals = run.operations.totals
    run.run_until(
        lambda: stop(run) or int((run.state.phase[vms] == GuestPhase.ENDED).sum()) >= most_ended
    )
    ended_s = np.where(run.state.phase[vms] == GuestPhase.ENDED, run.state.since_s[vms], np.nan)
    done = np.flatnonzero(np.isfinite(ended_s))
    names = dict.fromkeys(name for cycle in watched.cycles for name in cycle)
    return JobCycles(
        {
            name: np.array([cycle.get(name, np.nan) for cycle in watched.cycles], dtype=float)
            for name in names
        },
        done[np.argsort(ended_s[done], kind="stable")],
        ended_s,
        run.operations.totals,
        jobs,
        run.state.now_s,
    )
