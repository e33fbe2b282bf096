"""Figure 14: what the market gives to the three kinds of tenants."""

from collections.abc import Sequence

from simulator.experiments import figures, tenants
from simulator.experiments.experiment import (
    Experiment,
    Grid,
    Options,
    Panel,
    Report,
    Rows,
    Statement,
)
from simulator.workloads.applications import Tenant

FULL, PARTIAL, PERFORMANCE = (kind.value for kind in tenants.KINDS)
SAME = 10.0
"""Percentage points within which kinds finish almost the same number of applications."""


def report(rows: Rows, options: Options) -> Report:  # noqa: ARG001 - the same for all
    """Both panels as tables, and what the paper says of them."""
    over = figures.levels(rows)
    kinds = figures.systems(rows)
    return Report(
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
                tuple(figures.curve(rows, name, kind, over) for kind in kinds),
                falling=True,
            )
            for name, label in (
                ("satisfaction", "total satisfaction, credits"),
                ("met", "deadlines met, %"),
            )
        ),
    )


def grid(title: str, name: str, form: str, rows: Rows, over: Sequence[float]) -> Grid:
    """A number of each kind at each level."""
    kinds = figures.systems(rows)
    return Grid(
        title,
        ("level", *kinds),
        tuple(
            (f"{level:g}", *(figures.cell(rows, name, kind, level, form) for kind in kinds))
            for level in over
        ),
    )


def _statements(rows: Rows, over: Sequence[float]) -> tuple[Statement, ...]:
    def mean(name: str, kind: str, level: float) -> float:
        return figures.mean(rows, name, kind, level)

    def met(level: float) -> list[float]:
        return [mean("met", kind.value, level) for kind in Tenant]

    return (
        Statement(
            "the paper: partial-deadline tenants are satisfied most",
            all(
                mean("satisfaction", PARTIAL, level) >= mean("satisfaction", kind, level)
                for level in over
                for kind in (FULL, PERFORMANCE)
            ),
        ),
        Statement(
            "the paper: full-performance tenants are satisfied least",
            all(
                mean("satisfaction", PERFORMANCE, level) <= mean("satisfaction", kind, level)
                for level in over
                for kind in (FULL, PARTIAL)
            ),
        ),
        Statement(
            "the paper: the part of finished applications is almost the same for all kinds",
            all(max(met(level)) - min(met(level)) <= SAME for level in over),
            f"within {SAME:g} percentage points",
        ),
        Statement(
            "the paper: fewest finish with partial-deadline tenants, who are not stopped before"
            " their deadline",
            all(mean("met", PARTIAL, level) <= mean("met", FULL, level) for level in over),
        ),
    )


EXPERIMENT = Experiment(
    "figure-14",
    "satisfaction and deadlines met of full-deadline, partial-deadline, full-performance tenants",
    tenants.tasks,
    tenants.measure,
    report,
    tenants.RUNS,
)
