"""Figure 13: Merkat, as in the paper and with orders, against batch schedulers at ten levels."""

from collections.abc import Sequence

from simulator.experiments import experiment
from simulator.experiments.compared_systems import (
    EASY,
    EDF,
    EDF_PERIODS,
    FCFS,
    ORDERS,
    PAPER,
    applications_of,
    run,
)
from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Grid,
    Panel,
    PaperStatement,
    Row,
    Rows,
    Task,
)
from simulator.model.simulated_cloud import HPC2N

SYSTEMS = (FCFS, EASY, EDF, EDF_PERIODS, PAPER, ORDERS)
MARKETS = (PAPER, ORDERS)
LEVELS = tuple(level / 10 for level in range(10, 0, -1))
QUICK_LEVELS = (1.0, 0.5, 0.1)
NOTE = (
    "The paper prints no values for this figure. After ±: the standard deviation over the seeds,"
    " which draw deadlines and memory."
)
NEARLY = 0.5
"""Percentage points within which two systems meet almost the same number of deadlines."""
SURE = 99.0
"""Percentage of deadlines that EDF meets at light contention."""
ENOUGH = 0.995
"""Part of the greatest satisfaction that is enough at light contention."""


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each system, level and seed."""
    chosen = QUICK_LEVELS if options.quick else LEVELS
    return [
        Task(system, level, seed)
        for seed in range(options.seeds)
        for level in chosen
        for system in SYSTEMS
    ]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the results of a system at a level, for a seed."""
    applications = applications_of(HPC2N, options, task)
    return run(task.system, applications, HPC2N, task.seed)


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return both panels as tables, with the statements of the paper and of Merkat."""
    over = experiment.levels(rows)
    return ExperimentReport(
        (
            _grid("Satisfaction, credits (Figure 13a)", "satisfaction", ".0f", rows, over),
            _grid("Deadlines met, % (Figure 13b)", "met", ".2f", rows, over),
            _grid("Satisfaction by core-hour, in budgets", "part_h", ".3f", rows, over),
            _grid("Deadlines met, % of core-hours", "met_h", ".2f", rows, over),
            _cost(rows, over),
        ),
        (
            *_of_the_paper(rows, over),
            _ours(
                rows, over, EDF_PERIODS, "EDF's satisfaction with the same rhythm and operations"
            ),
            _ours(rows, over, EDF, "the satisfaction of an EDF that decides at once"),
        ),
        (
            _panel("satisfaction", "total satisfaction, credits", rows, over),
            _panel("met", "deadlines met, %", rows, over),
        ),
        (NOTE,),
    )


def _grid(title: str, name: str, form: str, rows: Rows, over: Sequence[float]) -> Grid:
    return Grid(
        title,
        ("level", *SYSTEMS),
        tuple(
            (
                f"{level:g}",
                *(experiment.cell(rows, name, system, level, form) for system in SYSTEMS),
            )
            for level in over
        ),
    )


def _cost(rows: Rows, over: Sequence[float]) -> Grid:
    def cells(system: str, level: float) -> tuple[str, ...]:
        def mean(name: str) -> float:
            return experiment.mean(rows, name, system, level)

        return (
            f"{mean('suspensions'):.0f}",
            f"{mean('migrations'):.0f}",
            f"{mean('decisions'):.0f}",
            f"{mean('cpu_s'):.1f}",
            f"{1000.0 * mean('cpu_s') / mean('looks'):.2f}",
        )

    return Grid(
        "Costs of the markets",
        (
            *("level", "EDF's suspensions", "system", "suspensions", "migrations", "decisions"),
            *("CPU s", "ms a period"),
        ),
        tuple(
            (
                f"{level:g}",
                f"{experiment.mean(rows, 'suspensions', EDF, level):.0f}",
                system,
                *cells(system, level),
            )
            for level in over
            for system in MARKETS
        ),
    )


def _of_the_paper(rows: Rows, over: Sequence[float]) -> tuple[PaperStatement, ...]:
    def worth(system: str, level: float) -> float:
        return experiment.mean(rows, "satisfaction", system, level)

    def met(system: str, level: float) -> float:
        return experiment.mean(rows, "met", system, level)

    light = [level for level in over if met(EDF, level) >= SURE]
    return (
        PaperStatement(
            "the paper: the market outperforms FCFS in all cases",
            all(worth(PAPER, level) > worth(FCFS, level) for level in over),
        ),
        PaperStatement(
            "the paper: when contention is not high, it meets almost as many deadlines as EDF"
            " and satisfies more",
            all(
                met(PAPER, level) >= met(EDF, level) - NEARLY
                and worth(PAPER, level) > worth(EDF, level)
                for level in light
            ),
            f"levels at which EDF meets {SURE:g} %: {', '.join(f'{at:g}' for at in light)}",
        ),
        PaperStatement(
            "the paper: when contention is high, it falls behind EDF",
            worth(PAPER, over[-1]) < worth(EDF, over[-1]),
            "as in the paper; with orders it should not",
        ),
    )


def _ours(rows: Rows, over: Sequence[float], rival: str, what: str) -> PaperStatement:
    behind = [level for level in over if not _enough(rows, level, rival)]
    return PaperStatement(
        f"ours: with orders, at every level at least {what}, or within half a percent of the"
        " greatest where EDF meets 99 %; by application and by core-hour",
        not behind,
        "behind at " + ", ".join(f"{level:g}" for level in behind) if behind else "",
    )


def _enough(rows: Rows, level: float, rival: str) -> bool:
    def mean(name: str, system: str) -> float:
        return experiment.mean(rows, name, system, level)

    return all(
        mean(part, ORDERS) >= mean(part, rival)
        or (mean(met, rival) >= SURE and mean(part, ORDERS) >= ENOUGH)
        for part, met in (("part", "met"), ("part_h", "met_h"))
    )


def _panel(name: str, label: str, rows: Rows, over: Sequence[float]) -> Panel:
    curves = tuple(experiment.curve(rows, name, system, over) for system in SYSTEMS)
    return Panel(label, "times between arrivals, scaled by", label, curves, falling=True)


EXPERIMENT = Experiment(
    "figure-13",
    "satisfaction and deadlines met: the paper's market and orders against batch schedulers",
    tasks,
    measure,
    report,
)
