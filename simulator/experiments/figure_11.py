"""Figures 11 and 12: two batch frameworks share a cloud; a framework alone may take all of it."""

from collections import deque
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from merkatd.policies.batch_queue import QueueAim
from simulator.experiments import experiment
from simulator.experiments.experiment import (
    Curve,
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
from simulator.market.batch_frameworks import Framework, FrameworkSetup, FrameworkView, Job
from simulator.market.framework_market import simulate
from simulator.model.simulated_cloud import CORE
from simulator.workloads.lublin import lublin

NODES, NODE_CORES = 32, 7
MARKET, HALVES = "market", "halves"
CONDOR, TORQUE = "condor", "torque"
MPI_JOBS, MPI_LARGEST = 61, 8
"""Number and largest size of MPI jobs. Sizes are drawn for the whole cloud and limited to the
paper's 8. Drawn for a machine of 8, nearly all would be 2, and the framework would never need its
half."""
MPI_MEAN_S, MPI_SPREAD_S = 2479.0, 1243.5
SWEEPS, SWEEP_JOBS, SWEEP_EVERY_S = 8, 1000, 3600.0
SWEEP_MEAN_S, SWEEP_SPREAD_S = 478.0, 363.0
LEAST_S = 10.0
"""Least run time of a task."""
BURSTS_S = (2.0 * 3600.0, 5.0 * 3600.0)
"""Times of the bursts of MPI jobs. The paper's second and fourth phases, in which both frameworks
need more than half, begin with a burst each; the paper prints no times."""
BURST_S = 600.0
SETTLED_S = 1200.0
"""Time until shares are equal: running jobs keep their workers until then."""
NEARLY_ALL = 0.9
NEAR_HALF = 0.05


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return the tasks: the market, and a cloud cut in halves."""
    return [Task(system, 0.0, seed) for seed in range(options.seeds) for system in (MARKET, HALVES)]


def frameworks(task: Task, options: ExperimentOptions) -> tuple[Framework, Framework]:
    """Return Condor with its sweeps and Torque with its MPI jobs, for a seed."""
    rng = np.random.default_rng(task.seed)
    tenth = 10 if options.quick else 1
    halves = NODES * NODE_CORES // 2 // tenth if task.system == HALVES else None
    return (
        Framework(CONDOR, QueueAim.THROUGHPUT, deque(_sweeps(rng, SWEEP_JOBS // tenth)), halves),
        Framework(TORQUE, QueueAim.WAIT, deque(_mpi(rng, max(MPI_JOBS // tenth, 2))), halves),
    )


def run_frameworks(task: Task, options: ExperimentOptions) -> tuple[Framework, Framework]:
    """Return both frameworks after their run."""
    condor, torque = frameworks(task, options)
    simulate(
        (condor, torque),
        FrameworkSetup(units=NODES * NODE_CORES * CORE / (10 if options.quick else 1)),
    )
    return condor, torque


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return each framework's VMs, and its part of the CPU while both need more than half."""
    condor, torque = run_frameworks(task, options)
    half = NODES * NODE_CORES // 2 // (10 if options.quick else 1)
    both = _contended(condor, torque, half)
    alone = [
        seen for seen, other in zip(condor.seen, torque.seen, strict=False) if not other.useful
    ]
    return {
        "alone": max(seen.vms for seen in alone) / (2 * half),
        "periods_both": float(len(both)),
        "condor_part": fmean([seen.part for seen, _ in both] or [0.0]),
        "torque_part": fmean([other.part for _, other in both] or [0.0]),
        "condor_vms": fmean([seen.vms for seen, _ in both] or [0.0]),
        "torque_vms": fmean([other.vms for _, other in both] or [0.0]),
        "wait_s": torque.waited_s / max(torque.begun, 1),
        "end_s": condor.end_s,
        "lost": float(condor.lost + torque.lost),
    }


def _contended(
    condor: Framework, torque: Framework, half: int
) -> list[tuple[FrameworkView, FrameworkView]]:
    """Return the periods in which both have needed at least half for `SETTLED_S`."""
    both, since_s = [], None
    for seen, other in zip(condor.seen, torque.seen, strict=False):
        if min(seen.useful, other.useful) < half:
            since_s = None
            continue
        since_s = seen.at_s if since_s is None else since_s
        if seen.at_s >= since_s + SETTLED_S:
            both.append((seen, other))
    return both


def _sweeps(rng: np.random.Generator, count: int) -> list[Job]:
    return [
        Job(sweep * SWEEP_EVERY_S, 1, float(long_s))
        for sweep in range(SWEEPS)
        for long_s in np.clip(rng.normal(SWEEP_MEAN_S, SWEEP_SPREAD_S, count), LEAST_S, None)
    ]


def _mpi(rng: np.random.Generator, count: int) -> list[Job]:
    sizes = [min(job.procs, MPI_LARGEST) for job in lublin(count, NODES * NODE_CORES, rng)]
    long_s = np.clip(rng.normal(MPI_MEAN_S, MPI_SPREAD_S, count), LEAST_S, None)
    half = (count + 1) // 2
    begin = np.repeat(BURSTS_S, half)[:count] + rng.uniform(0.0, BURST_S, count)
    order = np.argsort(begin)
    return [Job(float(begin[at]), sizes[at], float(long_s[at])) for at in order.tolist()]


def report(rows: Rows, options: ExperimentOptions) -> ExperimentReport:
    """Return the parts of both, the paper's statements, and both figures of the first seed."""

    def mean(name: str, system: str = MARKET) -> float:
        return experiment.mean(rows, name, system, 0.0)

    def cells(name: str, form: str) -> tuple[str, ...]:
        return tuple(experiment.cell(rows, name, system, 0.0, form) for system in (MARKET, HALVES))

    parts = [mean(f"{name}_part") for name in (CONDOR, TORQUE)]
    return ExperimentReport(
        (
            Grid(
                "Two frameworks on 32 nodes of 7 cores",
                ("", MARKET, HALVES),
                (
                    ("Condor alone, most VMs, part of the cloud", *cells("alone", ".2f")),
                    ("both need half: Condor's part of the CPU", *cells("condor_part", ".3f")),
                    ("both need half: Torque's part of the CPU", *cells("torque_part", ".3f")),
                    ("both need half: Condor's VMs", *cells("condor_vms", ".1f")),
                    ("both need half: Torque's VMs", *cells("torque_vms", ".1f")),
                    ("mean wait in Torque's queue, s", *cells("wait_s", ".0f")),
                    ("end of Condor's last job, s", *cells("end_s", ".0f")),
                    ("restarted jobs", *cells("lost", ".1f")),
                ),
            ),
        ),
        (
            PaperStatement(
                "the paper, Figure 11: while Torque needs little, Condor has as many VMs as the"
                " cloud can hold",
                mean("alone") >= NEARLY_ALL,
                f"{mean('alone'):.0%} of them",
            ),
            PaperStatement(
                "the paper, Figure 12: while both need more than half, each gets half of the CPU",
                mean("periods_both") > 0 and all(abs(part - 0.5) <= NEAR_HALF for part in parts),
                ", ".join(f"{part:.1%}" for part in parts),
            ),
            PaperStatement(
                "the paper: resources are used better than in fixed halves",
                mean("end_s") < mean("end_s", HALVES),
                f"Condor is done {1 - mean('end_s') / mean('end_s', HALVES):.0%} sooner",
            ),
        ),
        _panels(options),
    )


def _panels(options: ExperimentOptions) -> tuple[Panel, ...]:
    both = run_frameworks(Task(MARKET, 0.0, 0), options)

    def curves(names: Sequence[str]) -> tuple[Curve, ...]:
        return tuple(
            Curve(
                f"{framework.name} {name}",
                tuple(seen.at_s / 3600.0 for seen in framework.seen),
                tuple(float(getattr(seen, name)) for seen in framework.seen),
            )
            for framework in both
            for name in names
        )

    return (
        Panel("VMs and queues (Figure 11)", "hours", "number", curves(("vms", "queued"))),
        Panel("CPU (Figure 12)", "hours", "part of the cloud", curves(("part",))),
    )


EXPERIMENT = Experiment(
    "figures-11-12",
    "two batch frameworks share a cloud by Algorithm 4",
    tasks,
    measure,
    report,
)
