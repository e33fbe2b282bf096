"""The experiment of a scenario file of a whole data centre: systems side by side over time."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from merkatd.cluster import Floats
from simulator.experiments.experiment import (
    Curve,
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Grid,
    Panel,
    Row,
    Rows,
    Task,
)
from simulator.kernel.kernel_run import KernelRun
from simulator.scenarios.center_scenario import CenterPoint, CenterScenario, center_scenario_of
from simulator.scenarios.outcome_files import (
    ERROR,
    mean_and_error,
    over_seeds,
    write_columns_csv,
    write_parquet,
)
from simulator.scenarios.scenario_values import ScenarioError
from simulator.scenarios.workload_tables import requests_of

OVER_TIME: Final = "over_time"
"""The part of a row that has the columns over time."""
_LEVELS: Final = frozenset(
    {
        *("active_hosts", "asleep_hosts", "failed_hosts", "overloaded_hosts", "running"),
        *("pending", "imbalance", "watts", "unresolved_triggers"),
    }
)
"""Columns whose value of a run is the mean over time; all others but parts count from its begin."""
_PARTS: Final = ("utilisation_", "reserved_", "price_")
_S_PER_HOUR: Final = 3600.0


def center_experiment(path: Path) -> Experiment:
    """Return the experiment of the file; raise ScenarioError or OSError."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: {error}") from None
    scenario = center_scenario_of(text, path)
    return Experiment(
        scenario.name,
        f"the data centre of {path}",
        partial(_tasks, scenario),
        partial(measure, text, path),
        partial(report, scenario),
        seeds=scenario.seeds,
        partial=True,
        inputs=scenario.traces,
        write=partial(write_over_time, scenario),
    )


def _tasks(scenario: CenterScenario, options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each system, point and seed; the level is the number of the point.

    A quick experiment has the first point and seed alone.
    """
    seeds, points = (1, 1) if options.quick else (options.seeds, len(scenario.points))
    return [
        Task(system, float(at), seed)
        for seed in range(seeds)
        for at in range(points)
        for system in scenario.systems
    ]


def measure(text: str, path: Path, task: Task, options: ExperimentOptions) -> Row:  # noqa: ARG001
    """Return the outcome of a run: values by name, and all columns over time."""
    point = center_scenario_of(text, path).points[int(task.level)]
    outcome = KernelRun(
        point.center,
        requests_of(point.draws, task.seed),
        point.deciders.decider(task.system),
        span_s=point.span_s,
        seed=task.seed,
    ).run()
    row: dict[str, Any] = {name: _label(value) for name, value in point.swept.items()}
    for name in outcome.columns:
        if name != "at_s":
            row[name] = outcome.mean(name) if _is_level(name) else outcome.last(name)
    row[OVER_TIME] = {name: column.tolist() for name, column in outcome.columns.items()}
    return row


def _is_level(name: str) -> bool:
    return name in _LEVELS or name.startswith(_PARTS)


def _runs(rows: Rows, system: str, at: int) -> list[Row]:
    """Return the runs of a system at a point, which may lack some that failed."""
    return [row for task, row in rows.items() if (task.system, task.level) == (system, float(at))]


def write_over_time(scenario: CenterScenario, rows: Rows, folder: Path) -> Sequence[str]:
    """Write the columns over time, and return a line about each file."""
    blocks: list[dict[str, Any]] = []
    for at, point in enumerate(scenario.points):
        for system in scenario.systems:
            runs = _runs(rows, system, at)
            if runs:
                swept = {name: _label(value) for name, value in point.swept.items()}
                columns = over_seeds([run[OVER_TIME] for run in runs])
                blocks.append({**swept, "system": system, "seeds": len(runs), **columns})
    if not blocks:
        return []
    write_columns_csv(folder / "columns.csv", blocks)
    lacks = write_parquet(folder / "columns.parquet", blocks)
    parquet = folder / "columns.parquet"
    return [
        f"over time: {folder / 'columns.csv'}",
        f"Parquet: {lacks or parquet}",
    ]


def _label(value: Any) -> Any:
    """Return a swept value as a cell: numbers stay, others become texts."""
    return value if isinstance(value, int | float) else str(value)


# -- report -----------------------------------------------------------------------------------


def report(
    scenario: CenterScenario,
    rows: Rows,
    options: ExperimentOptions,  # noqa: ARG001 - the rows tell all
) -> ExperimentReport:
    """Return a table and plots; runs that failed are left out."""
    swept = list(scenario.points[0].swept)
    seeds = len({task.seed for task in rows})
    grid = Grid(
        f"Means of {seeds} seeds ± standard errors" if seeds > 1 else "One seed",
        (*swept, "system", *scenario.in_table),
        tuple(
            (*(f"{value}" for value in point.swept.values()), system, *_cells(scenario, runs))
            for at, point in enumerate(scenario.points)
            for system in scenario.systems
            if (runs := _runs(rows, system, at))
        ),
    )
    panels = _over_time(scenario, rows) if len(scenario.points) == 1 else _by_point(scenario, rows)
    return ExperimentReport((grid,), (), panels)


def _cells(scenario: CenterScenario, runs: Sequence[Row]) -> list[str]:
    return [
        _cell(*mean_and_error(np.array([run[name] for run in runs]))) for name in scenario.in_table
    ]


def _cell(mean: Any, error: Any) -> str:
    """Return mean and error as text."""
    if mean == 0 and not error > 0:
        return "0"
    digits = 3 if abs(mean) < 1 else 1
    if np.isnan(error):
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def _over_time(scenario: CenterScenario, rows: Rows) -> tuple[Panel, ...]:
    """Return a panel for each outcome, with a curve over time for each system."""
    columns = {
        system: over_seeds([run[OVER_TIME] for run in runs])
        for system in scenario.systems
        if (runs := _runs(rows, system, 0))
    }
    return tuple(
        Panel(
            name,
            "time, h",
            name,
            tuple(
                Curve(
                    system,
                    _numbers(found["at_s"] / _S_PER_HOUR),
                    _numbers(found[name]),
                    _errors(found[name + ERROR]),
                )
                for system, found in columns.items()
            ),
        )
        for name in scenario.in_plot
        if columns
    )


def _by_point(scenario: CenterScenario, rows: Rows) -> tuple[Panel, ...]:
    """Return a panel for each outcome, with a curve over the points for each system."""
    label, where = _axis(scenario.points)

    def curve(system: str, name: str) -> Curve:
        known = [at for at in range(len(where)) if _runs(rows, system, at)]
        found = [
            mean_and_error(np.array([run[name] for run in _runs(rows, system, at)])) for at in known
        ]
        return Curve(
            system,
            tuple(where[at] for at in known),
            tuple(float(mean) for mean, _ in found),
            _errors(np.array([error for _, error in found])),
        )

    return tuple(
        Panel(name, label, name, tuple(curve(system, name) for system in scenario.systems))
        for name in scenario.in_plot
        if rows
    )


def _axis(points: Sequence[CenterPoint]) -> tuple[str, list[float]]:
    """Return the title of the axis and the place of each point on it."""
    names = list(points[0].swept)
    values = [point.swept[names[0]] for point in points]
    if len(names) == 1 and all(isinstance(value, int | float) for value in values):
        return names[0], [float(value) for value in values]
    return f"{', '.join(names)}: the row of the table", [float(at + 1) for at in range(len(points))]


def _numbers(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def _errors(values: Floats) -> tuple[float, ...]:
    return () if np.isnan(values).any() else _numbers(values)
