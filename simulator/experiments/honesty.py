"""Does it pay to lie? One tenant says another limit than its own, or splits its application.

Not in the paper. On many random clouds, each as contended as Figure 13's worst, one application
behaves in four ways while everybody else stays honest: it says what its limit is, ten times as
much, a tenth, or comes as two of half the size, of which both must meet the deadline.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np

from controllers.policies.patience import Temper
from simulator.core.cloud import Cloud
from simulator.core.run import simulate
from simulator.experiments import figures
from simulator.experiments.experiment import (
    Experiment,
    Grid,
    Options,
    Report,
    Row,
    Rows,
    Statement,
    Task,
)
from simulator.workloads.applications import Application, Assignment, assign, contended
from simulator.workloads.lublin import lublin

HONEST, MORE, LESS, SPLIT = "honest", "ten times", "a tenth", "split"
WAYS = (HONEST, MORE, LESS, SPLIT)
CLOUDS = 25
"""Random clouds a seed,"""
COUNT = 40
"""and applications on each."""
SERIOUS_S = 60.0
"""A liar's application runs at least so long: for the shorter ones nothing is at stake."""


def tasks(options: Options) -> Sequence[Task]:
    """All four ways on the same clouds."""
    return [Task(way, 0.1, seed) for seed in range(options.seeds) for way in WAYS]


def measure(task: Task, options: Options) -> Row:
    """Of the one application, on average: satisfaction in budgets, and what it paid in them."""
    clouds = CLOUDS // 5 if options.quick else CLOUDS
    found = [_one(task.system, task.seed * CLOUDS + number) for number in range(clouds)]
    return {
        "satisfaction": fmean(worth for worth, _ in found),
        "paid": fmean(paid for _, paid in found),
    }


def _one(way: str, number: int) -> tuple[float, float]:
    rng = np.random.default_rng((13, number))
    cloud = Cloud(nodes=int(rng.integers(4, 12)), cpu=200.0, memory_mib=2048.0)
    jobs = lublin(COUNT, cloud.cores, rng)
    work = sum(job.run_s * job.procs for job in jobs)
    span_s = jobs[-1].submit_s - jobs[0].submit_s
    terms = Assignment(node_memory_mib=cloud.memory_mib, boot_s=cloud.costs.boot_s)
    everybody = contended(assign(jobs, terms, rng), work / cloud.cores / span_s / 4.0)
    serious = [
        row for row, one in enumerate(everybody) if one.tasks >= 2 and one.run_s >= SERIOUS_S
    ]
    row = int(rng.choice(serious))
    lies = {MORE: {row: 10.0}, LESS: {row: 0.1}}.get(way, {})
    mine = (row, row + 1) if way == SPLIT else (row,)
    if way == SPLIT:
        everybody = _split(everybody, row)
    run = simulate(everybody, cloud, Temper(), rng, lies)
    met = all(run.outcomes[at].met for at in mine)
    paid = sum(run.spent[at] for at in mine) / sum(
        everybody[at].budget * everybody[at].tasks for at in mine
    )
    return (1.0 if met else -1.0), paid


def _split(everybody: Sequence[Application], row: int) -> tuple[Application, ...]:
    one = everybody[row]
    half = replace(one, tasks=one.tasks // 2)
    rest = replace(one, tasks=one.tasks - one.tasks // 2)
    return (*everybody[:row], half, rest, *everybody[row + 1 :])


def report(rows: Rows, options: Options) -> Report:  # noqa: ARG001 - the same for all
    """By way: what it brings, and whether more than honesty."""
    honest = figures.values(rows, "satisfaction", HONEST, 0.1)

    def gains(way: str) -> list[float]:
        theirs = figures.values(rows, "satisfaction", way, 0.1)
        return [ours - base for ours, base in zip(theirs, honest, strict=True)]

    def statement(way: str, text: str) -> Statement:
        gained = gains(way)
        error = stdev(gained) / len(gained) ** 0.5 if len(gained) > 1 else 0.0
        return Statement(
            text,
            fmean(gained) <= 2 * error,
            f"on average {fmean(gained):+.3f} ± {error:.3f} budgets",
        )

    return Report(
        (
            Grid(
                "One application among honest ones, in its own budgets",
                ("it says or does", "satisfaction", "paid"),
                tuple(
                    (
                        way,
                        figures.cell(rows, "satisfaction", way, 0.1, ".3f"),
                        figures.cell(rows, "paid", way, 0.1, ".3f"),
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
