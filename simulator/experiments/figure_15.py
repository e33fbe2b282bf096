"""Figure 15: operations on VMs per hour, by kind of tenant."""

from simulator.experiments import experiment, figure_14
from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Panel,
    PaperStatement,
    Rows,
)
from simulator.experiments.figure_14 import FULL, PARTIAL, PERFORMANCE, grid

OPERATIONS = ("migrations_h", "vm_suspensions_h")


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return migrations and suspensions, with the paper's statements."""
    over = experiment.levels(rows)
    kinds = experiment.systems(rows)

    def operations(kind: str, level: float) -> float:
        return sum(experiment.mean(rows, name, kind, level) for name in OPERATIONS)

    return ExperimentReport(
        (
            grid("Migrations an hour", "migrations_h", ".1f", rows, over),
            grid("VMs suspended an hour", "vm_suspensions_h", ".1f", rows, over),
        ),
        (
            PaperStatement(
                "the paper: full-deadline tenants need the fewest operations",
                all(
                    operations(FULL, level) <= operations(kind, level)
                    for level in over
                    for kind in (PARTIAL, PERFORMANCE)
                ),
            ),
            PaperStatement(
                "the paper: at the highest contention full-deadline tenants' migrations fall",
                experiment.mean(rows, "migrations_h", FULL, over[-1])
                < max(experiment.mean(rows, "migrations_h", FULL, level) for level in over),
            ),
            PaperStatement(
                "the paper: partial-deadline tenants' operations grow with contention",
                operations(PARTIAL, over[-1]) > operations(PARTIAL, over[0]),
            ),
        ),
        tuple(
            Panel(
                name,
                "times between arrivals, scaled by",
                label,
                tuple(experiment.curve(rows, name, kind, over) for kind in kinds),
                falling=True,
            )
            for name, label in zip(
                OPERATIONS, ("migrations an hour", "VMs suspended an hour"), strict=True
            )
        ),
    )


EXPERIMENT = Experiment(
    "figure-15",
    "migrations and suspensions per hour, by kind of tenant",
    figure_14.tasks,
    figure_14.measure,
    report,
    figure_14.RUNS,
)
