"""Experiments: their tasks, rows and reports, and means over seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

Row = Mapping[str, Any]
"""Results of a run, by name: numbers, and whatever else the experiment's own report shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOptions:
    """The options of the command line."""

    trace: Path | None = None
    """Trace of jobs; None to generate the jobs."""
    seeds: int = 4
    quick: bool = False
    """Whether to make fewer and smaller runs, as a test rather than a comparison."""
    scenario: Path | None = None
    """Scenario file; None for an experiment of the paper."""
    inputs: tuple[Path, ...] = ()
    """Further files that the rows depend on."""


@dataclass(frozen=True, slots=True)
class Task:
    """The description of a run, which identifies it in stored results."""

    system: str
    level: float
    seed: int

    @property
    def key(self) -> str:
        """Return the name of the run within the experiment."""
        return f"{self.system}/{self.level:g}/{self.seed}"


Rows = Mapping[Task, Row]


@dataclass(frozen=True, slots=True)
class PaperStatement:
    """A statement of the paper or of Merkat, and whether it holds in this run."""

    text: str
    holds: bool
    detail: str = ""

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does NOT hold"
        return f"{verdict}: {self.text}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: a title, names of columns, rows of cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """A line of a plot, with the standard deviation at each point."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    spread: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """A plot of a figure."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    falling: bool = False
    """Whether x falls from left to right."""


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """The report of an experiment."""

    grids: tuple[Grid, ...]
    statements: tuple[PaperStatement, ...]
    panels: tuple[Panel, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment, such as a figure or table of the paper."""

    name: str
    summary: str
    tasks: Callable[[ExperimentOptions], Sequence[Task]]
    measure: Callable[[Task, ExperimentOptions], Row]
    report: Callable[[Rows, ExperimentOptions], ExperimentReport]
    runs: str = ""
    """Name of the stored runs, if several experiments share them."""
    seeds: int = 4
    """The number of seeds unless the command line has another one."""
    partial: bool = False
    """Whether the report can do without some of the runs."""
    inputs: tuple[Path, ...] = ()
    """Files that the rows depend on, besides those of the options."""
    write: Callable[[Rows, Path], Sequence[str]] = lambda _rows, _folder: ()
    """Function that writes further files into a folder and returns lines about them."""


def values(rows: Rows, name: str, system: str, level: float) -> list[float]:
    """Return the values of all seeds, in order of the seeds."""
    chosen = [task for task in rows if task.system == system and task.level == level]
    return [rows[task][name] for task in sorted(chosen, key=lambda task: task.seed)]


def mean(rows: Rows, name: str, system: str, level: float) -> float:
    """Return the mean over the seeds."""
    return fmean(values(rows, name, system, level))


def spread(rows: Rows, name: str, system: str, level: float) -> float:
    """Return the standard deviation over the seeds; 0 for a single seed."""
    numbers = values(rows, name, system, level)
    return stdev(numbers) if len(numbers) > 1 else 0.0


def cell(rows: Rows, name: str, system: str, level: float, form: str = ".0f") -> str:
    """Return mean and standard deviation as text."""
    centre, width = mean(rows, name, system, level), spread(rows, name, system, level)
    return f"{centre:{form}} ± {width:{form}}"


def levels(rows: Rows) -> list[float]:
    """Return the levels of contention, the lightest first."""
    return sorted({task.level for task in rows}, reverse=True)


def systems(rows: Rows) -> list[str]:
    """Return the systems, in the order of their runs."""
    return list(dict.fromkeys(task.system for task in rows))


def curve(rows: Rows, name: str, system: str, over: Sequence[float]) -> Curve:
    """Return a system's curve over the levels."""
    return Curve(
        system,
        tuple(over),
        tuple(mean(rows, name, system, level) for level in over),
        tuple(spread(rows, name, system, level) for level in over),
    )
