"""Experiment Two of the utility-placement paper, and its Figure 11: 800 identical jobs."""

from collections.abc import Sequence
from typing import Final

import numpy as np

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
    cycle_curve,
    ends_curve,
    ends_of,
    jobs_panel,
    most_alike_shift,
    over_time,
)
from simulator.experiments.utility.job_cycles import UTILITY, decider_of, run_jobs
from simulator.experiments.utility.paper_jobs import (
    CYCLE_S,
    MOST_PLACED,
    JobDraw,
    draw_jobs,
    paper_center,
)

JOBS, GAP_S, FACTOR = 800, 260.0, 2.7
QUICK_JOBS, QUICK_GAP_S = 150, 200.0
GREATEST: Final = 1.0 - 1.0 / FACTOR
"""The greatest utility, 0.63: the job begins at once and is never slowed."""
_WAIT = CYCLE_S / (FACTOR * 17_600.0)
"""The utility that a job loses if it arrives just after a decision."""
_MEMORY: Final = 31
"""The cycles in which a job that waited may still run."""
_SHIFTS_S: Final = np.arange(0.0, 40_001.0, CYCLE_S)
_SHIFT_S = 18_000.0
_NEAR_S = 2_000.0
_PAPER_MS = 1500.0


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each seed; a quick run has a load that makes jobs wait soon."""
    gap_s = QUICK_GAP_S if options.quick else GAP_S
    return [Task(UTILITY, gap_s, seed) for seed in range(options.seeds)]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the outcome of a seed."""
    count = QUICK_JOBS if options.quick else JOBS
    jobs = draw_jobs(JobDraw(gaps_s=[(count, task.level)], factors=[(FACTOR, 1.0)]), task.seed)
    run = run_jobs(paper_center(), jobs, decider_of(task.system), most_ended=count, seed=task.seed)
    its = run.totals
    waiting = run.cycles["jobs"] - run.cycles["placed"]
    hypothetical = run.cycles["hypothetical"]
    lately = np.convolve(waiting, np.ones(_MEMORY))[: len(waiting)]
    free = hypothetical[(lately == 0) & np.isfinite(hypothetical)]
    expected = run.cycles["hypothetical_waiting"]
    expected = np.where(np.isfinite(expected), expected, GREATEST)
    shift_s, alike = most_alike_shift(run, expected, _SHIFTS_S)
    mean_shift_s, _ = most_alike_shift(run, hypothetical, _SHIFTS_S)
    took_ms = 1000.0 * run.cycles["took_s"]
    queued = waiting > 0
    return {
        "suspensions": its.suspensions + its.stops,
        "migrations": its.live_migrations + its.cold_migrations,
        "refused": its.refused,
        "most_placed": float(np.nanmax(run.cycles["placed"])),
        "most_waiting": float(np.nanmax(waiting)),
        "free_least": float(free.min()) if len(free) else np.nan,
        "free_mean": float(free.mean()) if len(free) else np.nan,
        "met": float((run.utilities[run.ended] >= 0).mean()),
        "shift_s": shift_s,
        "alike": alike,
        "mean_shift_s": mean_shift_s,
        "queued_ms": float(took_ms[queued].mean()) if queued.any() else 0.0,
        "free_ms": float(took_ms[~queued].mean()),
        OVER_TIME: over_time(run),
        ENDS: ends_of(run),
    }


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:
    """Return the outcome, the paper's statements and its Figures 9 to 11 for the first seed."""
    gap_s = experiment.levels(rows)[0]

    def cell(name: str, form: str = ".0f") -> str:
        return experiment.cell(rows, name, UTILITY, gap_s, form)

    def all_of(name: str) -> list[float]:
        return experiment.values(rows, name, UTILITY, gap_s)

    changes = sum(all_of("suspensions")) + sum(all_of("migrations"))
    least = min(all_of("free_least"))
    return ExperimentReport(
        (
            Grid(
                "Identical jobs",
                ("", "mean over the seeds ± deviation"),
                (
                    ("suspensions and migrations", f"{changes:.0f} in all"),
                    ("most jobs placed at once", cell("most_placed")),
                    ("most jobs waiting at once", cell("most_waiting")),
                    ("hypothetical utility while no job waits", cell("free_mean", ".3f")),
                    ("part of goals met", cell("met", ".3f")),
                    ("the ends follow the jobs that wait after, s", cell("shift_s")),
                    ("correlation then", cell("alike", ".2f")),
                    ("the ends follow the mean of all jobs after, s", cell("mean_shift_s")),
                    ("a decision while jobs wait, ms of CPU", cell("queued_ms", ".1f")),
                    ("a decision while none waits, ms of CPU", cell("free_ms", ".1f")),
                ),
            ),
        ),
        (
            PaperStatement(
                "the paper: no job is suspended or migrated", changes == 0, f"{changes:.0f}"
            ),
            PaperStatement(
                f"the paper: no more than {MOST_PLACED} jobs are placed at once",
                max(all_of("most_placed")) <= MOST_PLACED,
                f"{max(all_of('most_placed')):.0f}",
            ),
            PaperStatement(
                "the paper: the hypothetical utility is 0.63 while no job waits or has waited, less"
                " what jobs lose until the next cycle",
                least >= GREATEST - _WAIT and max(all_of("free_mean")) <= GREATEST,
                f"{min(all_of('free_mean')):.3f} in the mean, {least:.3f} at least",
            ),
            *_following(all_of("shift_s"), all_of("alike"), options),
            PaperStatement(
                "a decision takes less than the paper's 1.5 s",
                max(all_of("queued_ms")) < _PAPER_MS,
                f"{max(all_of('queued_ms')):.1f} ms of CPU while jobs wait",
            ),
        ),
        panels(rows[next(iter(rows))]),
    )


def _following(
    shifts_s: Sequence[float], alike: Sequence[float], options: ExperimentOptions
) -> list[PaperStatement]:
    """Return the statement about the time after which ends follow; few jobs don't queue enough."""
    if options.quick:
        return []
    return [
        PaperStatement(
            "the paper: the utilities of ends follow the hypothetical ones of jobs that wait,"
            " about 18,000 s later",
            all(abs(each - _SHIFT_S) <= _NEAR_S for each in shifts_s) and min(alike) > 0.5,
            ", ".join(f"{each:.0f} s" for each in shifts_s),
        )
    ]


def panels(row: Row) -> tuple[Panel, ...]:
    """Return the paper's Figures 9, 10 and 11 for a run."""
    return (
        jobs_panel(9, row),
        Panel(
            "utility (Figure 10)",
            "time, h",
            "utility",
            (
                cycle_curve("hypothetical, mean", row, "hypothetical"),
                ends_curve("at the ends, mean of 20", row),
            ),
        ),
        Panel(
            "decisions (Figure 11)",
            "time, h",
            "CPU time, s",
            (cycle_curve("a decision", row, "took_s"),),
        ),
    )


EXPERIMENT = Experiment(
    "identical-jobs",
    "utility placement, Experiment Two and Figure 11: 800 identical jobs on 25 nodes",
    tasks,
    measure,
    report,
)
