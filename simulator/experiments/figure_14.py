"""Figure 14: satisfaction and deadlines by kind of tenant; its runs also serve Figure 15."""

from collections.abc import Sequence

from simulator.experiments import experiment
from simulator.experiments.compared_systems import ORDERS, applications_of, run
from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Grid,
    Panel,
    PaperStatement,
    Row,
    Rows,
    Task,
)
from simulator.experiments.figure_13 import LEVELS, QUICK_LEVELS
from simulator.model.simulated_cloud import HPC2N
from simulator.workloads.job_applications import TenantKind

RUNS = "figures-14-15"
KINDS = (TenantKind.FULL_DEADLINE, TenantKind.PARTIAL_DEADLINE, TenantKind.FULL_PERFORMANCE)


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each kind of tenant, level and seed."""
    chosen = QUICK_LEVELS if options.quick else LEVELS
    return [
        Task(kind.value, level, seed)
        for seed in range(options.seeds)
        for level in chosen
        for kind in KINDS
    ]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the results of a kind of tenant at a level, for a seed."""
    applications = applications_of(HPC2N, options, task, TenantKind(task.system))
    return run(ORDERS, applications, HPC2N, task.seed)


FULL, PARTIAL, PERFORMANCE = (kind.value for kind in KINDS)
SAME = 10.0
"""Percentage points within which kinds finish almost the same number of applications."""


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return both panels as tables, with the paper's statements."""
    over = experiment.levels(rows)
    kinds = experiment.systems(rows)
    return ExperimentReport(
        (
            grid("Satisfaction, credits", "satisfaction", ".0f", rows, over),
            grid("Deadlines met, %", "met", ".2f", rows, over),
        ),
        _statements(rows, over),
        tuple(
            Panel(
                label,
                "times between arrivals, scaled by",
                label,
                tuple(experiment.curve(rows, name, kind, over) for kind in kinds),
                falling=True,
            )
            for name, label in (
                ("satisfaction", "total satisfaction, credits"),
                ("met", "deadlines met, %"),
            )
        ),
    )


def grid(title: str, name: str, form: str, rows: Rows, over: Sequence[float]) -> Grid:
    """Return a table of a value for each kind of tenant and level."""
    kinds = experiment.systems(rows)
    return Grid(
        title,
        ("level", *kinds),
        tuple(
            (f"{level:g}", *(experiment.cell(rows, name, kind, level, form) for kind in kinds))
            for level in over
        ),
    )


def _statements(rows: Rows, over: Sequence[float]) -> tuple[PaperStatement, ...]:
    def mean(name: str, kind: str, level: float) -> float:
        return experiment.mean(rows, name, kind, level)

    def met(level: float) -> list[float]:
        return [mean("met", kind.value, level) for kind in TenantKind]

    return (
        PaperStatement(
            "the paper: partial-deadline tenants are satisfied most",
            all(
                mean("satisfaction", PARTIAL, level) >= mean("satisfaction", kind, level)
                for level in over
                for kind in (FULL, PERFORMANCE)
            ),
        ),
        PaperStatement(
            "the paper: full-performance tenants are satisfied least",
            all(
                mean("satisfaction", PERFORMANCE, level) <= mean("satisfaction", kind, level)
                for level in over
                for kind in (FULL, PARTIAL)
            ),
        ),
        PaperStatement(
            "the paper: the part of finished applications is almost the same for all kinds",
            all(max(met(level)) - min(met(level)) <= SAME for level in over),
            f"within {SAME:g} percentage points",
        ),
        PaperStatement(
            "the paper: applications of partial-deadline tenants finish least often, as they are"
            " not stopped before their deadline",
            all(mean("met", PARTIAL, level) <= mean("met", FULL, level) for level in over),
        ),
    )


EXPERIMENT = Experiment(
    "figure-14",
    "satisfaction and deadlines met of full-deadline, partial-deadline, full-performance tenants",
    tasks,
    measure,
    report,
    RUNS,
)
