"""The systems that are compared, each as a function from applications to a row of numbers."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from merkatd.policies.patience import Temper
from simulator.baselines.easy import easy
from simulator.baselines.edf import edf
from simulator.baselines.fcfs import Queued, fcfs
from simulator.core.cloud import Cloud
from simulator.core.run import simulate
from simulator.experiments.experiment import Row
from simulator.outcome import Outcome, by_start, met_part, satisfaction
from simulator.workloads import SwfJob
from simulator.workloads.applications import Application

FCFS, EASY, EDF, MARKET = "fcfs", "easy", "edf", "market"
HOUR_S = 3600.0
Queue = Callable[[Sequence[SwfJob], int], Queued]


def run(
    system: str, applications: Sequence[Application], cloud: Cloud, temper: Temper, seed: int
) -> Row:
    """One system on these applications: what it reached, what it took, and our own time."""
    begin_s = time.process_time()
    row = {
        FCFS: lambda: _queued(fcfs, applications, cloud),
        EASY: lambda: _queued(easy, applications, cloud),
        EDF: lambda: _edf(applications, cloud),
        MARKET: lambda: _market(applications, cloud, temper, seed),
    }[system]()
    return {**row, "cpu_s": time.process_time() - begin_s}


def _reached(outcomes: Sequence[Outcome]) -> dict[str, float]:
    best = sum(one.application.budget for one in outcomes)
    return {
        "satisfaction": satisfaction(outcomes),
        "part": satisfaction(outcomes) / best,
        "met": 100.0 * met_part(outcomes),
    }


def _as_job(one: Application, boot_s: float) -> SwfJob:
    return SwfJob(one.number, one.submit_s, one.run_s + boot_s, one.tasks, -1.0, -1.0, 0)


def _queued(queue: Queue, applications: Sequence[Application], cloud: Cloud) -> dict[str, float]:
    boot_s = cloud.costs.boot_s
    jobs = [_as_job(one, boot_s) for one in applications]
    queued = queue(jobs, cloud.cores)
    outcomes = [
        by_start(one, start_s, boot_s)
        for one, start_s in zip(applications, queued.start_s, strict=True)
    ]
    return {**_reached(outcomes), "events": float(queued.events)}


def _edf(applications: Sequence[Application], cloud: Cloud) -> dict[str, float]:
    run = edf(applications, cloud.cores, cloud.costs)
    return {
        **_reached(run.outcomes),
        "suspensions": float(run.suspensions),
        "vm_suspensions": float(run.vm_suspensions),
        "events": float(run.events),
    }


def _market(
    applications: Sequence[Application], cloud: Cloud, temper: Temper, seed: int
) -> dict[str, float]:
    run = simulate(applications, cloud, temper, np.random.default_rng(seed))
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
