"""The experiment of a scenario file: systems side by side at each level."""

from collections.abc import Sequence
from pathlib import Path

from simulator.experiments import experiment
from simulator.experiments.compared_systems import run
from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Grid,
    Panel,
    Row,
    Rows,
    Task,
)
from simulator.scenario import scenario_of

COLUMNS = (
    ("deadlines met, %", "met", ".2f"),
    ("satisfaction", "satisfaction", ".0f"),
    ("part of the greatest", "part", ".3f"),
    ("in budgets by core-hour", "part_h", ".3f"),
    ("suspensions", "suspensions", ".0f"),
    ("migrations an hour", "migrations_h", ".1f"),
)


def scenario_experiment(path: Path) -> Experiment:
    """Return the experiment of the file; raise ScenarioError or OSError."""
    scenario = scenario_of(path)
    return Experiment(scenario.name, f"the scenario of {path}", tasks, measure, report)


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each system, level and seed."""
    scenario = scenario_of(_file(options))
    return [
        Task(system, level, seed)
        for seed in range(options.seeds)
        for level in scenario.levels
        for system in scenario.systems
    ]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the results of a task."""
    scenario = scenario_of(_file(options))
    applications = scenario.applications(task.seed, task.level)
    return run(task.system, applications, scenario.cloud, task.seed)


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return a table and plots."""
    systems, over = experiment.systems(rows), experiment.levels(rows)

    def cell(system: str, level: float, name: str, form: str) -> str:
        known = all(name in row for task, row in rows.items() if task.system == system)
        return experiment.cell(rows, name, system, level, form) if known else "-"

    return ExperimentReport(
        (
            Grid(
                "By the level at which times between arrivals are scaled",
                ("level", "system", *(title for title, _, _ in COLUMNS)),
                tuple(
                    (
                        f"{level:g}",
                        system,
                        *(cell(system, level, name, form) for _, name, form in COLUMNS),
                    )
                    for level in over
                    for system in systems
                ),
            ),
        ),
        (),
        tuple(
            Panel(
                title,
                "times between arrivals, scaled by",
                title,
                tuple(experiment.curve(rows, name, system, over) for system in systems),
                falling=True,
            )
            for title, name, _ in COLUMNS[:2]
        ),
    )


def _file(options: ExperimentOptions) -> Path:
    if options.scenario is None:
        raise ValueError("a scenario experiment needs its file in `scenario` (got None)")
    return options.scenario
