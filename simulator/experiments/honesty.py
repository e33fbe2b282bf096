"""Honesty: the gain of a tenant that states false limits or deadlines, or splits its applications.

Not in the paper. On many random clouds, each so contended that not all deadlines can be met, a
tenant with four applications behaves in five ways while all others are honest. It states its true
limits, ten times as much, or a tenth; or half of the time to each deadline; or each of its
applications comes as two of half the size, which must both meet the deadline. Credits that it does
not spend count for its next applications.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from statistics import fmean, stdev

import numpy as np

from simulator.experiments import experiment
from simulator.experiments.compared_systems import EDF_PERIODS, STRATEGY, edf_in_periods
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

HONEST, MORE, LESS = "honest", "ten times", "a tenth"
SPLIT, EARLY = "split", "half the time"
WAYS = (HONEST, MORE, LESS, SPLIT, EARLY)
RIVAL = EDF_PERIODS
"""The same clouds under EDF with the daemon's rhythm and operations, all deadlines true."""
OWN = 4
"""Applications of the tenant."""
LEAST_TIME = 1.05
"""The least time to a stated deadline, as a multiple of an application's time alone."""
CLOUDS = 100
"""Random clouds per seed."""
MOST_GAIN = 0.02
"""Budgets that a false statement may gain; two standard errors may come on top."""
ENOUGH = 0.60
"""The satisfaction of an honest tenant that is enough."""
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
    return [Task(way, 0.1, seed) for seed in range(options.seeds) for way in (*WAYS, RIVAL)]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the mean satisfaction and payment of the tenant for an application, in its budgets."""
    clouds = CLOUDS // 5 if options.quick else CLOUDS
    outcomes = [_one(task.system, task.seed * CLOUDS + number) for number in range(clouds)]
    return {
        "satisfaction": fmean(worth for worth, _ in outcomes),
        "paid": fmean(paid for _, paid in outcomes),
    }


def _one(way: str, number: int) -> tuple[float, float]:
    rng = np.random.default_rng((13, number))
    cloud = SimulatedCloud(
        nodes=int(rng.integers(4, 12)), cpu=200.0, memory_mib=2048.0, strategy=STRATEGY
    )
    terms = TaskAssignment(
        node_memory_mib=cloud.memory_mib,
        boot_s=cloud.costs.boot_s,
        least_factor=FACTORS[0],
        most_factor=FACTORS[1],
    )
    applications = assign(_jobs(cloud.cores, rng), terms, rng)
    several = [row for row, application in enumerate(applications) if application.tasks >= 2]
    own = sorted(rng.choice(several, min(OWN, len(several)), replace=False).tolist())
    if way == RIVAL:
        met = [outcome.met for outcome in edf_in_periods(applications, cloud).outcomes]
        return fmean(1.0 if met[row] else -1.0 for row in own), 0.0
    stated, parts = _stated(way, applications, own)
    mine = [row for rows in parts.values() for row in rows]
    factor = {MORE: 10.0, LESS: 0.1}.get(way, 1.0)
    run = simulate_orders(
        stated, cloud, number, dict.fromkeys(mine, factor), tenants=dict.fromkeys(mine, 0)
    )
    worth = fmean(
        1.0 if all(run.outcomes[at].end_s <= applications[row].due_s for at in rows) else -1.0
        for row, rows in parts.items()
    )
    budget = sum(stated[row].budget * stated[row].tasks for row in mine)
    return worth, sum(run.spent[row] for row in mine) / budget


def _stated(
    way: str, applications: Sequence[Application], own: Sequence[int]
) -> tuple[Sequence[Application], dict[int, list[int]]]:
    """Return the applications as the tenant states them, and the rows of each of its own."""
    stated: list[Application] = []
    parts: dict[int, list[int]] = {}
    for row, application in enumerate(applications):
        forms = [application]
        if row in own and way == SPLIT:
            half = application.tasks // 2
            forms = [
                replace(application, tasks=tasks) for tasks in (half, application.tasks - half)
            ]
        elif row in own and way == EARLY:
            least_s = LEAST_TIME * application.ideal_s
            forms = [replace(application, deadline_s=max(application.deadline_s / 2, least_s))]
        if row in own:
            parts[row] = list(range(len(stated), len(stated) + len(forms)))
        stated += forms
    return stated, parts


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


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return the results of each way, and whether it gains more than honesty."""
    honest = experiment.values(rows, "satisfaction", HONEST, 0.1)

    rival = experiment.values(rows, "satisfaction", RIVAL, 0.1)

    def gains(way: str) -> list[float]:
        theirs = experiment.values(rows, "satisfaction", way, 0.1)
        return [ours - base for ours, base in zip(theirs, honest, strict=True)]

    def statement(way: str, text: str) -> PaperStatement:
        gained = gains(way)
        error = stdev(gained) / len(gained) ** 0.5 if len(gained) > 1 else 0.0
        return PaperStatement(
            text,
            fmean(gained) <= MOST_GAIN + 2 * error,
            f"on average {fmean(gained):+.3f} ± {error:.3f} budgets",
        )

    return ExperimentReport(
        (
            Grid(
                "A tenant among honest ones: for each of its applications, in its budgets",
                ("behaviour", "satisfaction", "paid"),
                tuple(
                    (
                        way,
                        experiment.cell(rows, "satisfaction", way, 0.1, ".3f"),
                        experiment.cell(rows, "paid", way, 0.1, ".3f"),
                    )
                    for way in (*WAYS, RIVAL)
                ),
            ),
        ),
        (
            statement(MORE, "ours: a tenant gains nothing by a limit that is too high"),
            statement(LESS, "ours: a tenant gains nothing by a limit that is too low"),
            statement(SPLIT, "ours: a tenant gains nothing by splitting its applications"),
            statement(EARLY, "ours: a tenant gains nothing by deadlines that are too early"),
            PaperStatement(
                f"ours: an honest tenant gets at least {ENOUGH:g} of its budgets",
                fmean(honest) >= ENOUGH,
                f"on average {fmean(honest):.3f}",
            ),
            PaperStatement(
                "ours: an honest tenant gets at least as much as under EDF",
                fmean(honest) >= fmean(rival),
                f"EDF: {fmean(rival):.3f}",
            ),
        ),
    )


EXPERIMENT = Experiment(
    "honesty",
    "whether a tenant gains by false limits or by splitting, on random clouds",
    tasks,
    measure,
    report,
)
