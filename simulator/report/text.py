"""A report as plain text: tables, then what holds and what does not."""

from collections.abc import Iterator

from simulator.experiments.experiment import Grid, Report


def as_text(report: Report) -> str:
    """All of it, one line a statement."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
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
