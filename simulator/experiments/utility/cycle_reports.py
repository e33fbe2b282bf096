"""What the reports of the utility-placement paper's experiments share."""

from typing import Final

import numpy as np

from merkatd.cluster import Floats
from simulator.experiments.experiment import Curve, Panel, Row
from simulator.experiments.utility.job_cycles import JobCycles

OVER_TIME: Final = "over_time"
"""The part of a row with a value for each cycle."""
ENDS: Final = "ends"
"""The part of a row with a value for each job that ended, in the order of the ends."""
WINDOW: Final = 20
"""The jobs over whose ends a curve is averaged."""
_S_PER_H: Final = 3600.0


def over_time(run: JobCycles) -> dict[str, list[float]]:
    """Return the values of cycles as a part of a row."""
    return {name: _finite(column) for name, column in run.cycles.items()}


def ends_of(run: JobCycles) -> dict[str, list[float]]:
    """Return the ended jobs as a part of a row."""
    ended = run.ended
    return {
        "at_s": run.ended_s[ended].tolist(),
        "utility": run.utilities[ended].tolist(),
        "factor": run.jobs.factors[ended].tolist(),
        "submitted_s": run.jobs.declared.jobs.submitted_s[ended].tolist(),
    }


def _finite(column: Floats) -> list[float]:
    """Return values as JSON knows them: unknown ones are -10."""
    return [float(value) for value in np.where(np.isfinite(column), column, UNKNOWN)]


UNKNOWN: Final = -10.0
"""An unknown value in a stored row."""


def column(row: Row, part: str, name: str) -> Floats:
    """Return a column of a row; unknown values are NaN."""
    values = np.array(row[part][name], dtype=float)
    return np.where(values == UNKNOWN, np.nan, values)


def cycle_curve(name: str, row: Row, of: str) -> Curve:
    """Return a value of the cycles over time in hours."""
    at_h, values = column(row, OVER_TIME, "at_s") / _S_PER_H, column(row, OVER_TIME, of)
    known = np.isfinite(values)
    return Curve(name, tuple(at_h[known].tolist()), tuple(values[known].tolist()))


def jobs_panel(figure: int, row: Row) -> Panel:
    """Return the panel with the jobs in the system and those with a place, over time."""
    curves = (cycle_curve("in the system", row, "jobs"), cycle_curve("placed", row, "placed"))
    return Panel(f"jobs (Figure {figure})", "time, h", "jobs", curves)


def ends_curve(name: str, row: Row, factor: float | None = None) -> Curve:
    """Return the mean utility of neighbouring ends over time in hours."""
    at_h, utility = column(row, ENDS, "at_s") / _S_PER_H, column(row, ENDS, "utility")
    if factor is not None:
        own = column(row, ENDS, "factor") == factor
        at_h, utility = at_h[own], utility[own]
    if len(at_h) < WINDOW:
        return Curve(name, (), ())
    even = np.ones(WINDOW) / WINDOW
    return Curve(
        name,
        tuple(np.convolve(at_h, even, "valid").tolist()),
        tuple(np.convolve(utility, even, "valid").tolist()),
    )


def most_alike_shift(run: JobCycles, before: Floats, shifts_s: Floats) -> tuple[float, float]:
    """Return by which shift in time the ends' utilities follow values of the cycles best.

    The second value is the correlation of both with this shift.
    """
    at_s, known = run.cycles["at_s"], np.isfinite(before)
    ends_s, utility = run.ended_s[run.ended], run.utilities[run.ended]
    best = (0.0, -1.0)
    for shift_s in shifts_s.tolist():
        inside = (ends_s - shift_s >= at_s[0]) & (ends_s - shift_s <= at_s[known][-1])
        then = np.interp(ends_s[inside] - shift_s, at_s[known], before[known])
        if inside.sum() < WINDOW or not (then.std() > 0 and utility[inside].std() > 0):
            continue
        alike = float(np.corrcoef(then, utility[inside])[0, 1])
        if alike > best[1]:
            best = float(shift_s), alike
    return best
