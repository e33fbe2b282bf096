"""From rows to what is shown: means and standard deviations over the seeds."""

from collections.abc import Sequence
from statistics import fmean, stdev

from simulator.experiments.experiment import Curve, Rows


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
