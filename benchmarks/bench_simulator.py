"""The speed of the simulator: events a second of batch queues, milliseconds a period of orders.

python benchmarks/bench_simulator.py [TRACE]

Without a trace, the jobs come from the Lublin-Feitelson model. The limit of the queues is five
times AccaSim's measured 5,800 events a second. Orders run a tenth of the paper's jobs, with the
daemon's own controllers and rules in each period.
"""

import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.measurement import Figures
from simulator.baselines.queue_baselines import fcfs
from simulator.experiments.compared_systems import ORDERS, applications_of
from simulator.experiments.experiment import ExperimentOptions, Task
from simulator.kernel.event_queue import EventKind, EventQueue
from simulator.model.simulated_cloud import HPC2N
from simulator.orders.order_run import simulate_orders
from simulator.workloads import SwfJob, read_swf
from simulator.workloads.lublin import lublin

ACCASIM = 5_800.0
LEVELS = (1.0, 0.5)


def _queue_s(jobs: Sequence[SwfJob]) -> float:
    """Return the CPU time in which the kernel's queue takes all arrivals and ends of jobs."""
    begin_s = time.process_time()
    queue = EventQueue()
    arrivals = np.array([job.submit_s for job in jobs], dtype=float)
    queue.prepare(EventKind.VM_ARRIVES, arrivals, np.arange(len(jobs)))
    for at_s, kind, row, _ in queue.one_by_one():
        if kind == EventKind.VM_ARRIVES:
            queue.add(EventKind.VM_ENDS, at_s + jobs[row].run_s, row)
    return time.process_time() - begin_s


def main() -> int:
    """Print both figures and the memory; return 1 if a limit is missed."""
    figures = Figures()
    trace = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    jobs = read_swf(trace) if trace else lublin(50_000, HPC2N.cores, np.random.default_rng(1))
    jobs = [job for job in jobs if job.procs <= HPC2N.cores]
    begin_s = time.process_time()
    queued = fcfs(jobs, HPC2N.cores)
    cpu_s = time.process_time() - begin_s
    rate = queued.events / cpu_s
    figures.at_least(f"FCFS, {len(jobs):,} jobs, events a second", rate, 5 * ACCASIM)
    figures.plain("FCFS, s of CPU time", cpu_s)
    figures.plain("the same events in the kernel's queue alone, s of CPU time", _queue_s(jobs))
    figures.plain("FCFS, mean wait, s", queued.mean_wait_s(jobs))
    figures.plain("FCFS, mean slowdown", queued.mean_slowdown(jobs))
    for level in LEVELS:
        applications = applications_of(
            HPC2N, ExperimentOptions(trace=trace, quick=True), Task(ORDERS, level, 0)
        )
        begin_s = time.process_time()
        run = simulate_orders(applications, HPC2N, 0)
        cpu_ms = 1000.0 * (time.process_time() - begin_s)
        figures.plain(f"orders at {level:g}, ms a period", cpu_ms / run.counts.periods)
        figures.plain(f"orders at {level:g}, ms a decision", cpu_ms / run.counts.decisions)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    figures.at_most("memory, MiB", peak_mib, 1024.0)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
