"""What an experiment is, and means over its seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev

Row = Mapping[str, float]
"""What a run found, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOptions:
    """What the command line says."""

    trace: Path | None = None
    """A trace to take the jobs from; without one they are generated."""
    seeds: int = 4
    quick: bool = False
    """Fewer and smaller runs: to see that everything works, not to compare."""
    scenario: Path | None = None
    """The file that describes what is run, where it is none of the paper's."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run: what is run, in words that name it for ever."""

    system: str
    level: float
    seed: int

    @property
    def key(self) -> str:
        """Its name among all runs of the experiment."""
        return f"{self.system}/{self.level:g}/{self.seed}"


Rows = Mapping[Task, Row]


@dataclass(frozen=True, slots=True)
class PaperStatement:
    """What the paper, or we, say about it, and whether it holds here."""

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
    """One of the plots of a figure."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    falling: bool = False
    """Whether x falls from left to right."""


@dataclass(frozen=True, slots=True)
class ExperimentReport:
    """All that is shown of an experiment."""

    grids: tuple[Grid, ...]
    statements: tuple[PaperStatement, ...]
    panels: tuple[Panel, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure or table of the paper."""

    name: str
    summary: str
    tasks: Callable[[ExperimentOptions], Sequence[Task]]
    measure: Callable[[Task, ExperimentOptions], Row]
    report: Callable[[Rows, ExperimentOptions], ExperimentReport]
    runs: str = ""
    """The name that its runs are kept under, where another experiment has the same."""


def values(rows: Rows, name: str, system: str, level: float) -> list[float]:
    """Of every seed, by seed."""
    chosen = [task for task in rows if task.system == system and task.level == level]
    return [rows[task][name] for task in sorted(chosen, key=lambda task: task.seed)]


def mean(rows: Rows, name: str, system: str, level: float) -> float:
    """Over the seeds."""
    return fmean(values(rows, name, system, level))


def spread(rows: Rows, name: str, system: str, level: float) -> float:
    """The standard deviation over the seeds, 0 of a single one."""
    found = values(rows, name, system, level)
    return stdev(found) if len(found) > 1 else 0.0


def cell(rows: Rows, name: str, system: str, level: float, form: str = ".0f") -> str:
    """Both, as text."""
    centre, width = mean(rows, name, system, level), spread(rows, name, system, level)
    return f"{centre:{form}} ± {width:{form}}"


def levels(rows: Rows) -> list[float]:
    """Of contention, the lightest first."""
    return sorted({task.level for task in rows}, reverse=True)


def systems(rows: Rows) -> list[str]:
    """In the order in which they were run."""
    return list(dict.fromkeys(task.system for task in rows))


def curve(rows: Rows, name: str, system: str, over: Sequence[float]) -> Curve:
    """A system's line over the levels."""
    return Curve(
        system,
        tuple(over),
        tuple(mean(rows, name, system, level) for level in over),
        tuple(spread(rows, name, system, level) for level in over),
    )
