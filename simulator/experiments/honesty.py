"""Does it pay to lie? One tenant says another limit than its own, or splits its application.

Not in the paper. On many random clouds, each so contended that not all deadlines can be met, one
application behaves in four ways while everybody else stays honest: it says what its limit is, ten
times as much, a tenth, or comes as two of half the size, of which both must meet the deadline.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from statistics import fmean, stdev

import numpy as np

from merkatd.policies.patience import PatienceSettings
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
from simulator.market.market_run import simulate
from simulator.model.simulated_cloud import SimulatedCloud
from simulator.workloads import SwfJob
from simulator.workloads.job_applications import Application, TaskAssignment, assign

HONEST, MORE, LESS, SPLIT = "honest", "ten times", "a tenth", "split"
WAYS = (HONEST, MORE, LESS, SPLIT)
CLOUDS = 100
"""Random clouds a seed,"""
COUNT = 40
"""and applications on each,"""
LOAD = 4.0
"""which come in this part of the time that their work takes."""
FACTORS = (1.5, 4.0)
"""Deadlines, as multiples of what an application takes alone."""
RUNS_S = (120.0, 7200.0)
"""How long they run: all magnitudes are equally likely."""


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """All four ways on the same clouds."""
    return [Task(way, 0.1, seed) for seed in range(options.seeds) for way in WAYS]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Of the one application, on average: satisfaction in budgets, and what it paid in them."""
    clouds = CLOUDS // 5 if options.quick else CLOUDS
    found = [_one(task.system, task.seed * CLOUDS + number) for number in range(clouds)]
    return {
        "satisfaction": fmean(worth for worth, _ in found),
        "paid": fmean(paid for _, paid in found),
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
    everybody: Sequence[Application] = assign(_jobs(cloud.cores, rng), terms, rng)
    row = int(rng.choice([row for row, one in enumerate(everybody) if one.tasks >= 2]))
    lies = {MORE: {row: 10.0}, LESS: {row: 0.1}}.get(way, {})
    mine = (row, row + 1) if way == SPLIT else (row,)
    if way == SPLIT:
        everybody = _split(everybody, row)
    run = simulate(everybody, cloud, PatienceSettings(), rng, lies)
    met = all(run.outcomes[at].met for at in mine)
    paid = sum(run.spent[at] for at in mine) / sum(
        everybody[at].budget * everybody[at].tasks for at in mine
    )
    return (1.0 if met else -1.0), paid


def _jobs(cores: int, rng: np.random.Generator) -> list[SwfJob]:
    """Of up to half of the cloud's cores each."""
    run_s = np.exp(rng.uniform(log(RUNS_S[0]), log(RUNS_S[1]), size=COUNT))
    procs = rng.integers(1, cores // 2 + 1, COUNT)
    submit_s = np.sort(rng.uniform(0.0, run_s @ procs / cores / LOAD, COUNT))
    rows = zip(submit_s.tolist(), run_s.tolist(), procs.tolist(), strict=True)
    return [
        SwfJob(number, submit, run, tasks, -1.0, -1.0, 0)
        for number, (submit, run, tasks) in enumerate(rows, start=1)
    ]


def _split(everybody: Sequence[Application], row: int) -> tuple[Application, ...]:
    one = everybody[row]
    half = replace(one, tasks=one.tasks // 2)
    rest = replace(one, tasks=one.tasks - one.tasks // 2)
    return (*everybody[:row], half, rest, *everybody[row + 1 :])


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """By way: what it brings, and whether more than honesty."""
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
                ("it says or does", "satisfaction", "paid"),
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
            statement(MORE, "ours: nothing is gained by a limit that is too high"),
            statement(LESS, "ours: nothing is gained by a limit that is too low"),
            statement(SPLIT, "ours: nothing is gained by splitting an application"),
        ),
    )


EXPERIMENT = Experiment(
    "honesty",
    "whether a tenant gains by false limits or by splitting, on random clouds",
    tasks,
    measure,
    report,
)
