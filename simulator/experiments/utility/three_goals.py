"""Experiment Three of the utility-placement paper: equal jobs with goals of three kinds.

The paper's probabilities of its goal factors add to 110 %. Here they are 30, 40 and 30 %.
"""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster import Floats
from simulator.experiments import experiment
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
from simulator.experiments.utility.cycle_reports import (
    ENDS,
    OVER_TIME,
    column,
    cycle_curve,
    ends_curve,
    ends_of,
    jobs_panel,
    over_time,
)
from simulator.experiments.utility.job_cycles import UTILITY, JobCycles, decider_of, run_jobs
from simulator.experiments.utility.paper_jobs import MOST_PLACED, JobDraw, draw_jobs, paper_center

JOBS, QUICK_JOBS, GAP_S, QUICK_GAP_S = 800, 150, 260.0, 200.0
FACTORS = ((1.9, 0.3), (2.5, 0.4), (10.0, 0.3))
LOOSE = 10.0
CLOSE = 0.1
"""The utility by which the mean of a kind may be less than its greatest one."""


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each seed; a quick run has a load that makes jobs wait soon."""
    gap_s = QUICK_GAP_S if options.quick else GAP_S
    return [Task(UTILITY, gap_s, seed) for seed in range(options.seeds)]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the outcome of a seed."""
    count = QUICK_JOBS if options.quick else JOBS
    jobs = draw_jobs(JobDraw(gaps_s=[(count, task.level)], factors=FACTORS), task.seed)
    run = run_jobs(paper_center(), jobs, decider_of(task.system), most_ended=count, seed=task.seed)
    its, changed = run.totals, changes_of_cycles(run)
    fits = run.cycles["jobs"] <= MOST_PLACED
    row: dict[str, object] = {
        "suspensions": its.suspensions + its.stops,
        "resumptions": its.resumptions + its.continuations,
        "migrations": its.live_migrations + its.cold_migrations,
        "changes_without_queue": float(changed[fits].sum()),
        "met": float((run.utilities >= 0).mean()),
        OVER_TIME: over_time(run),
        ENDS: ends_of(run),
    }
    for factor, _ in FACTORS:
        own = jobs.factors == factor
        row[f"utility_{factor:g}"] = float(run.utilities[own].mean())
        row[f"least_{factor:g}"] = float(run.utilities[own].min())
    return row


def changes_of_cycles(run: JobCycles) -> Floats:
    """Return [cycles]: the jobs that gave way in each."""
    suspended: Floats = np.diff(run.cycles["given_way"], append=run.cycles["given_way"][-1])
    return suspended


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return the outcome, the paper's statements and its Figures 12 to 14 for the first seed."""
    gap_s = experiment.levels(rows)[0]

    def cell(name: str, form: str = ".0f") -> str:
        return experiment.cell(rows, name, UTILITY, gap_s, form)

    def mean(name: str) -> float:
        return experiment.mean(rows, name, UTILITY, gap_s)

    lost = {f"{factor:g}": 1 - 1 / factor - mean(f"utility_{factor:g}") for factor, _ in FACTORS}
    gave_way = {factor: mean_given_way(rows, factor) for factor, _ in FACTORS}
    return ExperimentReport(
        (
            Grid(
                "Goals of three kinds",
                ("", "mean over the seeds ± deviation"),
                (
                    ("suspensions", cell("suspensions")),
                    ("migrations", cell("migrations")),
                    ("suspensions while all jobs have room", cell("changes_without_queue")),
                    ("part of goals met", cell("met", ".3f")),
                    *(
                        (
                            f"utility of factor {factor:g}, at most {1 - 1 / factor:.3f}",
                            cell(f"utility_{factor:g}", ".3f"),
                        )
                        for factor, _ in FACTORS
                    ),
                ),
            ),
        ),
        (
            PaperStatement(
                "the paper: jobs with loose goals give way to others",
                gave_way[LOOSE] == max(gave_way.values()),
                ", ".join(f"factor {factor:g}: {lost_:.3f}" for factor, lost_ in gave_way.items())
                + " of utility lost to waiting",
            ),
            PaperStatement(
                "the paper: they do so only while jobs wait",
                mean("changes_without_queue") == 0,
                f"{mean('changes_without_queue'):.1f} suspensions while all jobs have room",
            ),
            PaperStatement(
                "the paper: each kind ends close to its greatest utility",
                max(lost.values()) <= CLOSE,
                ", ".join(f"factor {name}: {part:.3f} less" for name, part in lost.items()),
            ),
        ),
        panels(rows[next(iter(rows))]),
    )


def mean_given_way(rows: Rows, factor: float) -> float:
    """Return the mean time that jobs of a kind lost, as a part of their times at full speed."""
    lost = []
    for row in rows.values():
        own = column(row, ENDS, "factor") == factor
        utility = column(row, ENDS, "utility")[own]
        lost.append(float((factor * (1.0 - utility) - 1.0).mean()))
    return float(np.mean(lost))


def panels(row: Row) -> tuple[Panel, ...]:
    """Return the paper's Figures 12 to 14 for a run."""
    return (
        jobs_panel(12, row),
        Panel(
            "utility (Figure 13)",
            "time, h",
            "utility",
            (
                cycle_curve("hypothetical, mean", row, "hypothetical"),
                *(
                    ends_curve(f"at the ends, factor {factor:g}", row, factor)
                    for factor, _ in FACTORS
                ),
            ),
        ),
        Panel(
            "changes of placements (Figure 14)",
            "time, h",
            "since the begin",
            (cycle_curve("suspensions", row, "given_way"), cycle_curve("moves", row, "moved")),
        ),
    )


EXPERIMENT = Experiment(
    "three-goals",
    "utility placement, Experiment Three: equal jobs with goals of three kinds",
    tasks,
    measure,
    report,
)
