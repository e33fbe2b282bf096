"""Experiment Five of the utility-placement paper: identical jobs beside a service.

The arrivals of jobs are those of Experiment Two, and slower for the last quarter of them. The
service has an instance on each node; jobs and service compete for CPU alone.
"""

from collections.abc import Sequence

import numpy as np

from merkatd.cluster import Bools
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
from simulator.experiments.utility.cycle_reports import OVER_TIME, cycle_curve, over_time
from simulator.experiments.utility.job_cycles import UTILITY, JobCycles, decider_of, run_jobs
from simulator.experiments.utility.paper_jobs import (
    MHZ,
    SERVICE_MOST,
    SERVICE_UTILITY,
    JobDraw,
    draw_jobs,
    paper_center,
    with_service,
)

JOBS, SLOWER, GAP_S, SLOWER_GAP_S, FACTOR = 600, 200, 260.0, 400.0, 2.7
QUICK_JOBS, QUICK_SLOWER = 150, 30
EQUAL = 0.02
NOTE = "The paper prints no numbers of the service's utility, Figure 18, but its greatest one."
_FULL = 1e-6


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each seed."""
    return [Task(UTILITY, GAP_S, seed) for seed in range(options.seeds)]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the outcome of a seed."""
    count, slower = (QUICK_JOBS, QUICK_SLOWER) if options.quick else (JOBS, SLOWER)
    gaps = [(count, task.level), (slower, SLOWER_GAP_S)]
    jobs = draw_jobs(JobDraw(gaps_s=gaps, factors=[(FACTOR, 1.0)]), task.seed)
    run = run_jobs(
        paper_center(),
        jobs,
        decider_of(task.system),
        most_ended=count + slower,
        seed=task.seed,
        beside=with_service(jobs),
    )
    return _outcome(run) | {OVER_TIME: over_time(run)}


def _outcome(run: JobCycles) -> dict[str, float]:
    cycles, its = run.cycles, run.totals
    both = competes(run)
    apart, apart_of_all = (
        np.abs(cycles["hypothetical"] - cycles[name])[both] for name in ("jobs_with_its", "service")
    )
    started = cycles["at_s"] > 0
    model = cycles["response_goal_s"] * (1.0 - cycles["service"])
    # A response is measured before the decision, with the power of the decision before.
    wrong = np.abs(cycles["response_s"][1:] / model[:-1] - 1.0)
    return {
        "cycles_both": float(both.sum()),
        "apart_most": float(apart.max()) if len(apart) else np.nan,
        "apart_mean": float(apart.mean()) if len(apart) else np.nan,
        "apart_of_all": float(apart_of_all.mean()) if len(apart) else np.nan,
        "apart_of_all_most": float(apart_of_all.max()) if len(apart) else np.nan,
        "service_most": float(cycles["service"][started].max()),
        "service_least": float(cycles["service"][started].min()),
        "power_most": float(cycles["service_power"].max()) / MHZ,
        "power_last": float(cycles["service_power"][-1]) / MHZ,
        "wrong": float(np.median(wrong)),
        "suspensions": its.suspensions + its.stops,
        "migrations": its.live_migrations + its.cold_migrations,
        "met": float((run.utilities >= 0).mean()),
    }


def competes(run: JobCycles) -> Bools:
    """Return [cycles]: whether jobs and service each could use power that the other has.

    The service has less than it can use, jobs that are placed run below their greatest speeds, and
    some jobs could have a higher utility with more power.
    """
    cycles = run.cycles
    service_lacks = cycles["service_power"] < SERVICE_MOST * (1.0 - _FULL)
    jobs_lack = cycles["placed_power_part"] < 1.0 - _FULL
    some = np.isfinite(cycles["hypothetical_competing"])
    both: Bools = service_lacks & jobs_lack & some
    return both


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:  # noqa: ARG001 - the same for all
    """Return the outcome, the paper's statements and its Figures 19 and 20 for the first seed."""

    def cell(name: str, form: str = ".0f") -> str:
        return experiment.cell(rows, name, UTILITY, GAP_S, form)

    def all_of(name: str) -> list[float]:
        return experiment.values(rows, name, UTILITY, GAP_S)

    most = SERVICE_MOST / MHZ
    return ExperimentReport(
        (
            Grid(
                "Jobs beside a service",
                ("", "mean over the seeds ± deviation"),
                (
                    ("cycles in which both compete", cell("cycles_both")),
                    ("the jobs differ then, mean", cell("apart_mean", ".4f")),
                    ("the jobs differ then, most", cell("apart_most", ".4f")),
                    ("service and mean of all jobs, mean", cell("apart_of_all", ".4f")),
                    ("service and mean of all jobs, most", cell("apart_of_all_most", ".4f")),
                    ("greatest utility of the service", cell("service_most", ".3f")),
                    ("least utility of the service", cell("service_least", ".3f")),
                    ("its greatest power, MHz", cell("power_most")),
                    ("its power at the end, MHz", cell("power_last")),
                    ("measured response time against the model", cell("wrong", ".1%")),
                    ("suspensions", cell("suspensions")),
                    ("migrations", cell("migrations")),
                    ("part of goals met", cell("met", ".3f")),
                ),
            ),
        ),
        (
            PaperStatement(
                "while both compete, the jobs' mean hypothetical utility differs by at most"
                f" {EQUAL:g} from that with the service's utility, or its greatest, for each job",
                min(all_of("cycles_both")) > 0 and max(all_of("apart_most")) <= EQUAL,
                f"{max(all_of('apart_most')):.4f} at most",
            ),
            PaperStatement(
                "the paper: the service's greatest utility is 0.66, at 130,000 MHz",
                all(abs(each - SERVICE_UTILITY) < 0.005 for each in all_of("service_most"))
                and all(abs(each / most - 1) < 0.001 for each in all_of("power_most")),
                f"{max(all_of('service_most')):.3f} at {max(all_of('power_most')):,.0f} MHz",
            ),
            PaperStatement(
                "the paper: when the load falls, the power goes back to the service",
                all(abs(each / most - 1) < 0.001 for each in all_of("power_last")),
                f"{min(all_of('power_last')):,.0f} MHz at the end",
            ),
        ),
        panels(rows[next(iter(rows))]),
        (NOTE,),
    )


def panels(row: Row) -> tuple[Panel, ...]:
    """Return the paper's Figures 19 and 20 for a run."""
    return (
        Panel(
            "utility (Figure 19)",
            "time, h",
            "utility",
            (
                cycle_curve("service", row, "service"),
                cycle_curve("jobs, hypothetical, mean", row, "hypothetical"),
            ),
        ),
        Panel(
            "CPU (Figure 20)",
            "time, h",
            "percent of a core",
            (
                cycle_curve("service", row, "service_power"),
                cycle_curve("jobs", row, "job_power"),
                cycle_curve("jobs, for their greatest utility", row, "job_demand"),
            ),
        ),
    )


EXPERIMENT = Experiment(
    "jobs-and-service",
    "utility placement, Experiment Five: identical jobs beside a service",
    tasks,
    measure,
    report,
)
