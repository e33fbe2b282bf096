"""The compared systems, and their jobs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from merkatd.scheduler.base.early_periods import GATHER_S
from simulator.baselines.edf import EdfRun, edf
from simulator.baselines.queue_baselines import Queued, easy, fcfs
from simulator.experiments.experiment import ExperimentOptions, Row, Task
from simulator.market.market_run import MarketRun
from simulator.market.paper_run import simulate_paper
from simulator.model.simulated_cloud import SimulatedCloud
from simulator.orders.order_run import simulate_orders
from simulator.workloads import SwfJob, read_swf
from simulator.workloads.job_applications import (
    Application,
    ApplicationOutcome,
    TaskAssignment,
    TenantKind,
    assign,
    by_start,
    contended,
    met_part,
    satisfaction,
)
from simulator.workloads.lublin import lublin

FIRST = 1000
"""Number of jobs: the first 1,000, as in section 4.1.2."""
MAX_POOL = 120
LOAD = 0.39
"""Load of the first 1,000 jobs of HPC2N, as a part of its processors' time."""
LOOK_ALIKE_SEED = 2002


@lru_cache(maxsize=4)
def jobs_of(trace: Path | None, count: int, procs: int) -> tuple[SwfJob, ...]:
    """Return the first jobs of the trace; without a trace, of the Lublin model at the same load."""
    if trace is not None:
        return tuple(job for job in read_swf(trace, count) if job.procs <= procs)
    jobs = lublin(count, min(MAX_POOL, procs), np.random.default_rng(LOOK_ALIKE_SEED))
    work = sum(job.run_s * job.procs for job in jobs)
    span_s = jobs[-1].submit_s - jobs[0].submit_s
    scale = work / procs / LOAD / span_s
    return tuple(job._replace(submit_s=job.submit_s * scale) for job in jobs)


def applications_of(
    cloud: SimulatedCloud,
    options: ExperimentOptions,
    task: Task,
    tenant: TenantKind = TenantKind.FULL_DEADLINE,
) -> tuple[Application, ...]:
    """Return the jobs with the deadlines, budgets and memory of a seed, at a contention level."""
    count = FIRST // 10 if options.quick else FIRST
    terms = TaskAssignment(
        node_memory_mib=cloud.memory_mib, boot_s=cloud.costs.boot_s, tenant=tenant
    )
    jobs = jobs_of(options.trace, count, cloud.cores)
    return contended(assign(jobs, terms, np.random.default_rng(task.seed)), task.level)


FCFS, EASY, EDF, PAPER, ORDERS = "fcfs", "easy", "edf", "paper", "orders"
"""Two batch schedulers, EDF, Merkat as in the paper, and Merkat with limit orders."""
EDF_PERIODS = "edf-periods"
"""EDF with the daemon's rhythm and operations: it decides some time after an event and the last
period, and VMs keep their cores until they are saved. EDF without them is an ideal."""
STRATEGY = "tabu"
"""The strategy of Merkat with limit orders: the daemon's default."""
HOUR_S = 3600.0
Queue = Callable[[Sequence[SwfJob], int], Queued]


def run(
    system: str,
    applications: Sequence[Application],
    cloud: SimulatedCloud,
    seed: int,
) -> Row:
    """Run a system on these applications; return its results, its costs and the CPU time."""
    begin_s = time.process_time()
    row = {
        FCFS: lambda: _queued(fcfs, applications, cloud),
        EASY: lambda: _queued(easy, applications, cloud),
        EDF: lambda: _edf(edf(applications, cloud.cores, cloud.costs)),
        EDF_PERIODS: lambda: _edf(edf_in_periods(applications, cloud)),
        PAPER: lambda: _market(simulate_paper(applications, cloud, seed), cloud),
        ORDERS: lambda: _market(
            simulate_orders(applications, replace(cloud, strategy=STRATEGY), seed), cloud
        ),
    }[system]()
    return {**row, "cpu_s": time.process_time() - begin_s}


def _reached(outcomes: Sequence[ApplicationOutcome]) -> dict[str, float]:
    """Return what was reached: in credits, by application, and by core-hour (`_h`)."""
    best = sum(outcome.application.budget for outcome in outcomes)
    work = np.array([each.application.run_s * each.application.tasks for each in outcomes])
    worth = np.array([each.satisfaction / each.application.budget for each in outcomes])
    met = np.array([each.met for each in outcomes], dtype=np.float64)
    return {
        "satisfaction": satisfaction(outcomes),
        "part": satisfaction(outcomes) / best,
        "met": 100.0 * met_part(outcomes),
        "part_h": float(work @ worth / work.sum()),
        "met_h": 100.0 * float(work @ met / work.sum()),
    }


def _as_job(application: Application, boot_s: float) -> SwfJob:
    return SwfJob(
        application.number,
        application.submit_s,
        application.run_s + boot_s,
        application.tasks,
        -1.0,
        -1.0,
        0,
    )


def _queued(
    queue: Queue, applications: Sequence[Application], cloud: SimulatedCloud
) -> dict[str, float]:
    boot_s = cloud.costs.boot_s
    jobs = [_as_job(application, boot_s) for application in applications]
    queued = queue(jobs, cloud.cores)
    outcomes = [
        by_start(application, start_s, boot_s)
        for application, start_s in zip(applications, queued.start_s, strict=True)
    ]
    return {**_reached(outcomes), "events": float(queued.events)}


def edf_in_periods(applications: Sequence[Application], cloud: SimulatedCloud) -> EdfRun:
    """Run the applications under EDF with the daemon's rhythm and operations."""
    return edf(applications, cloud.cores, cloud.costs, GATHER_S, cloud.least_interval_s, held=True)


def _edf(run: EdfRun) -> dict[str, float]:
    return {
        **_reached(run.outcomes),
        "suspensions": float(run.suspensions),
        "vm_suspensions": float(run.vm_suspensions),
        "events": float(run.events),
    }


def _market(run: MarketRun, cloud: SimulatedCloud) -> dict[str, float]:
    counts = run.counts
    hours = max(run.span_s, 1.0) / HOUR_S
    return {
        **_reached(run.outcomes),
        "suspensions": float(counts.suspensions),
        "vm_suspensions": float(counts.vm_suspensions),
        "resumes": float(counts.resumes),
        "vm_resumes": float(counts.vm_resumes),
        "migrations": float(counts.migrations),
        "migrations_h": counts.migrations / hours,
        "vm_suspensions_h": counts.vm_suspensions / hours,
        "periods": run.span_s / cloud.period_s,
        "looks": float(counts.periods),
        "decisions": float(counts.decisions),
    }
