"""Experiment Four of the utility-placement paper: mixed jobs at eight rates, under three systems.

A system with `-free` has operations that take no time, as in the paper's experiment.
"""

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
from simulator.experiments.utility.job_cycles import EDF, FCFS, UTILITY, decider_of, run_jobs
from simulator.experiments.utility.paper_jobs import (
    FREE,
    JOB_MEMORY_MIB,
    MIXED,
    JobDraw,
    draw_jobs,
    paper_center,
)
from simulator.model.simulated_cloud import OperationCosts

SYSTEMS = (UTILITY, EDF, FCFS)
GAPS_S = (400.0, 350.0, 300.0, 250.0, 200.0, 150.0, 100.0, 50.0)
QUICK_GAPS_S = (150.0, 50.0)
FACTORS = ((1.3, 0.1), (2.5, 0.3), (4.0, 0.6))
ENDED, QUICK_ENDED = 800, 100
DRAWN_FOR_EACH = 4
"""Jobs go on arriving until enough have ended: so many are drawn for each that must end."""
TIGHT = 1.3
HEAVY: Final = (100.0, 50.0)
"""The gaps at which the paper's systems differ in the distances to goals."""
MANY: Final = 150.0
"""From here on down the paper's EDF changes many placements."""
_FREE = "-free"
_SAME = 1e-9
_FCFS_AT_50 = (0.35, 0.45)


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each system, with and without costs, gap and seed."""
    gaps = QUICK_GAPS_S if options.quick else GAPS_S
    ends = ("",) if options.quick else ("", _FREE)
    return [
        Task(system + end, gap, seed)
        for seed in range(options.seeds)
        for gap in gaps
        for end in ends
        for system in SYSTEMS
    ]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the outcome of a system at a rate, for a seed."""
    most = QUICK_ENDED if options.quick else ENDED
    draw = JobDraw(gaps_s=[(DRAWN_FOR_EACH * most, task.level)], factors=FACTORS, kinds=MIXED)
    jobs = draw_jobs(draw, task.seed)
    costs = FREE if task.system.endswith(_FREE) else OperationCosts()
    run = run_jobs(
        paper_center(costs),
        jobs,
        decider_of(task.system.removesuffix(_FREE), exchange_s=exchange_of(costs)),
        most_ended=most,
        seed=task.seed,
    )
    ended, its = run.ended[:most], run.totals
    goal_s, submitted_s = jobs.declared.jobs.goal_s, jobs.declared.jobs.submitted_s
    left_behind = np.isnan(run.ended_s) & (submitted_s <= run.now_s) & (goal_s < run.now_s)
    met = int((run.utilities[ended] >= 0).sum())
    row: dict[str, float] = {
        "met": met / len(ended),
        "met_of_due": met / (len(ended) + int(left_behind.sum())),
        "changes": run.changes,
        "suspensions": its.suspensions + its.stops,
        "migrations": its.live_migrations + its.cold_migrations,
        "refused": its.refused,
        "ms": 1000.0 * float(run.cycles["took_s"].mean()),
    }
    for factor, _ in FACTORS:
        own = ended[jobs.factors[ended] == factor]
        distance_s = goal_s[own] - run.ended_s[own]
        low, middle, high = np.percentile(distance_s, [25, 50, 75]) if len(own) else (0.0,) * 3
        row |= {f"range_{factor:g}": float(high - low), f"middle_{factor:g}": float(middle)}
    return row


def exchange_of(costs: OperationCosts) -> float:
    """Return the time until a job runs in the place of another one."""
    return costs.suspend_s(JOB_MEMORY_MIB) + costs.boot_s


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:
    """Return the tables and plots of Figures 15 to 17, and the statements."""
    gaps = experiment.levels(rows)
    found = experiment.systems(rows)
    ends = [end for end in ("", _FREE) if UTILITY + end in found]
    return ExperimentReport(
        (
            _grid("Part of goals met (Figure 15)", "met", ".3f", rows, gaps),
            _grid(
                "Part of goals met of those due, with jobs that had not ended",
                *("met_of_due", ".3f", rows, gaps),
            ),
            _grid("Changes of placements (Figure 16)", "changes", ".0f", rows, gaps),
            _grid(
                "Goal factor 1.3: interquartile range of the distance to the goal, s (Figure 17)",
                *(f"range_{TIGHT:g}", ".0f", rows, gaps),
            ),
            _grid("A decision, ms of CPU", "ms", ".1f", rows, gaps),
        ),
        tuple(
            statement
            for end in ends
            for statement in statements(rows, gaps, end, whole=not options.quick)
        ),
        (
            _panel("met", "goals met, part (Figure 15)", rows, gaps, ends),
            _panel("changes", "changes of placements (Figure 16)", rows, gaps, ends),
            _panel(f"range_{TIGHT:g}", "factor 1.3: range, s (Figure 17)", rows, gaps, ends),
        ),
        ("A change is a suspension, a resumption or a migration. FCFS makes none.",),
    )


def statements(rows: Rows, gaps: Sequence[float], end: str, *, whole: bool) -> list[PaperStatement]:
    """Return the statements about systems with these costs."""
    costs = "operations without costs" if end else "operations with costs"

    def mean(name: str, system: str, gap: float) -> float:
        return experiment.mean(rows, name, system + end, gap)

    lost = {gap: mean("met", EDF, gap) - mean("met", UTILITY, gap) for gap in gaps}
    changes = {
        gap: (mean("changes", UTILITY, gap), mean("changes", EDF, gap))
        for gap in gaps
        if gap <= MANY
    }
    ranges = {
        gap: tuple(mean(f"range_{TIGHT:g}", system, gap) for system in (UTILITY, EDF))
        for gap in gaps
        if gap in HEAVY
    }
    made = [
        PaperStatement(
            f"{costs}: utility meets at least as many goals as EDF at every rate",
            max(lost.values()) <= _SAME,
            "; ".join(f"{gap:.0f} s: {-part:+.1%}" for gap, part in lost.items()),
        ),
        PaperStatement(
            f"{costs}: utility makes at most half of EDF's changes at 150 s and below",
            all(ours <= theirs / 2 for ours, theirs in changes.values()),
            "; ".join(f"{gap:.0f} s: {a:.0f} of {b:.0f}" for gap, (a, b) in changes.items()),
        ),
        PaperStatement(
            f"{costs}: distances to goals of factor 1.3 spread less than EDF's at 100 and 50 s",
            all(ours < theirs for ours, theirs in ranges.values()),
            "; ".join(f"{gap:.0f} s: {a:.0f} of {b:.0f} s" for gap, (a, b) in ranges.items()),
        ),
    ]
    if whole:
        low, high = _FCFS_AT_50
        fcfs = mean("met", FCFS, 50.0)
        made.append(
            PaperStatement(
                f"{costs}: the paper: FCFS meets about 40 % of goals at 50 s",
                low <= fcfs <= high,
                f"{fcfs:.1%}",
            )
        )
    return made


def _grid(title: str, name: str, form: str, rows: Rows, gaps: Sequence[float]) -> Grid:
    found = experiment.systems(rows)
    return Grid(
        title,
        ("s between arrivals", *found),
        tuple(
            (
                f"{gap:.0f}",
                *(experiment.cell(rows, name, system, gap, form) for system in found),
            )
            for gap in gaps
        ),
    )


def _panel(name: str, label: str, rows: Rows, gaps: Sequence[float], ends: Sequence[str]) -> Panel:
    return Panel(
        label,
        "mean time between arrivals, s",
        label,
        tuple(
            experiment.curve(rows, name, system + end, gaps) for end in ends for system in SYSTEMS
        ),
        falling=True,
    )


EXPERIMENT = Experiment(
    "mixed-jobs",
    "utility placement, Experiment Four: goals met and changes, against EDF and FCFS",
    tasks,
    measure,
    report,
    seeds=5,
)
