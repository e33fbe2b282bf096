"""Honesty: the gain of a tenant that announces a false limit, or splits its application.

Not in the paper. On many random clouds, each so contended that not all deadlines can be met, one
application behaves in four ways while all others are honest. It announces its true limit, ten times
as much, or a tenth. Or it comes as two applications of half the size; then both must meet the
deadline.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from statistics import fmean, stdev

import numpy as np

from simulator.experiments import experiment
from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Grid,
    PaperStatement,
    Row,
    Rows,
    Task,
)
from simulator.model.simulated_cloud import SimulatedCloud
from simulator.orders.order_run import simulate_orders
from simulator.workloads import SwfJob
from simulator.workloads.job_applications import Application, TaskAssignment, assign

HONEST, MORE, LESS, SPLIT = "honest", "ten times", "a tenth", "split"
WAYS = (HONEST, MORE, LESS, SPLIT)
CLOUDS = 100
"""Random clouds per seed."""
COUNT = 40
"""Applications per cloud."""
LOAD = 4.0
"""Work of all applications divided by the cloud's capacity during their arrivals."""
FACTORS = (1.5, 4.0)
"""Range of deadlines, as multiples of an application's time alone."""
RUNS_S = (120.0, 7200.0)
"""Range of run times, uniform in their logarithm."""


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each way and seed; all ways use the same clouds."""
    return [Task(way, 0.1, seed) for seed in range(options.seeds) for way in WAYS]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the mean satisfaction and payment of the application, in its budgets."""
    clouds = CLOUDS // 5 if options.quick else CLOUDS
    outcomes = [_one(task.system, task.seed * CLOUDS + number) for number in range(clouds)]
    return {
        "satisfaction": fmean(worth for worth, _ in outcomes),
        "paid": fmean(paid for _, paid in outcomes),
    }


def _one(way: str, number: int) -> tuple[float, float]:
    rng = np.random.default_rng((13, number))
    cloud = SimulatedCloud(nodes=int(rng.integers(4, 12)), cpu=200.0, memory_mib=2048.0)
    terms = TaskAssignment(
        node_memory_mib=cloud.memory_mib,
        boot_s=cloud.costs.boot_s,
        least_factor=FACTORS[0],
        most_factor=FACTORS[1],
    )
    applications: Sequence[Application] = assign(_jobs(cloud.cores, rng), terms, rng)
    row = int(
        rng.choice([row for row, application in enumerate(applications) if application.tasks >= 2])
    )
    lies = {MORE: {row: 10.0}, LESS: {row: 0.1}}.get(way, {})
    mine = (row, row + 1) if way == SPLIT else (row,)
    if way == SPLIT:
        applications = _split(applications, row)
    run = simulate_orders(applications, cloud, rng, lies)
    met = all(run.outcomes[at].met for at in mine)
    paid = sum(run.spent[at] for at in mine) / sum(
        applications[at].budget * applications[at].tasks for at in mine
    )
    return (1.0 if met else -1.0), paid


def _jobs(cores: int, rng: np.random.Generator) -> list[SwfJob]:
    """Return random jobs of up to half of the cloud's cores each."""
    run_s = np.exp(rng.uniform(log(RUNS_S[0]), log(RUNS_S[1]), size=COUNT))
    procs = rng.integers(1, cores // 2 + 1, COUNT)
    submit_s = np.sort(rng.uniform(0.0, run_s @ procs / cores / LOAD, COUNT))
    rows = zip(submit_s.tolist(), run_s.tolist(), procs.tolist(), strict=True)
    return [
        SwfJob(number, submit, run, tasks, -1.0, -1.0, 0)
        for number, (submit, run, tasks) in enumerate(rows, start=1)
    ]


def _split(applications: Sequence[Application], row: int) -> tuple[Application, ...]:
    application = applications[row]
    half = replace(application, tasks=application.tasks // 2)
    rest = replace(application, tasks=application.tasks - application.tasks // 2)
    return (*applications[:row], half, rest, *applications[row + 1 :])


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return the results of each way, and whether it gains more than honesty."""
    honest = experiment.values(rows, "satisfaction", HONEST, 0.1)

    def gains(way: str) -> list[float]:
        theirs = experiment.values(rows, "satisfaction", way, 0.1)
        return [ours - base for ours, base in zip(theirs, honest, strict=True)]

    def statement(way: str, text: str) -> PaperStatement:
        gained = gains(way)
        error = stdev(gained) / len(gained) ** 0.5 if len(gained) > 1 else 0.0
        return PaperStatement(
            text,
            fmean(gained) <= 2 * error,
            f"on average {fmean(gained):+.3f} ± {error:.3f} budgets",
        )

    return ExperimentReport(
        (
            Grid(
                "One application among honest ones, in its own budgets",
                ("behaviour", "satisfaction", "paid"),
                tuple(
                    (
                        way,
                        experiment.cell(rows, "satisfaction", way, 0.1, ".3f"),
                        experiment.cell(rows, "paid", way, 0.1, ".3f"),
                    )
                    for way in WAYS
                ),
            ),
        ),
        (
            statement(MORE, "ours: a tenant gains nothing by a limit that is too high"),
            statement(LESS, "ours: a tenant gains nothing by a limit that is too low"),
            statement(SPLIT, "ours: a tenant gains nothing by splitting an application"),
        ),
    )


EXPERIMENT = Experiment(
    "honesty",
    "whether a tenant gains by false limits or by splitting, on random clouds",
    tasks,
    measure,
    report,
)
