"""What an experiment is: independent runs, each a row of numbers, and what is made of the rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Row = Mapping[str, float]
"""What a run found, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
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
class Statement:
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
class Report:
    """All that is shown of an experiment."""

    grids: tuple[Grid, ...]
    statements: tuple[Statement, ...]
    panels: tuple[Panel, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Experiment:
    """One figure or table of the paper."""

    name: str
    summary: str
    tasks: Callable[[Options], Sequence[Task]]
    measure: Callable[[Task, Options], Row]
    report: Callable[[Rows, Options], Report]
    runs: str = ""
    """The name that its runs are kept under, where another experiment has the same."""
