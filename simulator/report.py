"""Reports of experiments as text, CSV and plots."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from simulator.experiments.experiment import ExperimentReport, Grid, Rows

ERROR_BARS = 30
"""The most error bars of a curve; the curve itself has all points."""


def write_csv(rows: Rows, path: Path) -> None:
    """Write a line for each run; values that a system lacks are empty. Tables are left out."""
    names = list(
        dict.fromkeys(
            name
            for row in rows.values()
            for name, value in row.items()
            if not isinstance(value, Mapping)
        )
    )
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["system", "level", "seed", *names])
        for task, row in rows.items():
            values = [row.get(name, "") for name in names]
            lines.writerow([task.system, f"{task.level:g}", task.seed, *values])


def draw(report: ExperimentReport, title: str, path: Path) -> bool:
    """Write the figure; return False without matplotlib or without panels."""
    if not report.panels:
        return False
    try:
        import matplotlib as mpl  # noqa: PLC0415 - an optional dependency
    except ImportError:
        return False
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    count = len(report.panels)
    figure, axes = plt.subplots(1, count, figsize=(6 * count, 4.5), squeeze=False)
    for axis, panel in zip(axes[0], report.panels, strict=True):
        for curve in panel.curves:
            if any(curve.spread):
                every = -(-len(curve.x) // ERROR_BARS)
                axis.errorbar(
                    curve.x, curve.y, curve.spread, label=curve.name, capsize=2, errorevery=every
                )
            else:
                axis.plot(curve.x, curve.y, label=curve.name)
        axis.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        if panel.falling:
            axis.invert_xaxis()
        axis.grid(visible=True, alpha=0.3)
        axis.legend()
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return True


def as_text(report: ExperimentReport) -> str:
    """Return the report as text, a line for each statement."""
    return "\n".join(_lines(report))


def _lines(report: ExperimentReport) -> Iterator[str]:
    for grid in report.grids:
        yield from _grid(grid)
        yield ""
    for statement in report.statements:
        yield str(statement)
    yield from report.notes


def _grid(grid: Grid) -> Iterator[str]:
    rows = [grid.columns, *grid.rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(grid.columns))]
    yield grid.title
    for row in rows:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
