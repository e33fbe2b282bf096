"""Where the jobs of an experiment come from: a trace, or a look-alike of the paper's."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from simulator.core.cloud import Cloud
from simulator.experiments.experiment import Options, Task
from simulator.workloads import SwfJob, read_swf
from simulator.workloads.applications import Application, Assignment, Tenant, assign, contended
from simulator.workloads.lublin import lublin

FIRST = 1000
"""Section 4.1.2: the first 1,000 jobs."""
LARGEST = 120
LOAD = 0.39
"""What the first 1,000 jobs of HPC2N ask for, as a part of its processors' time, and the
processors of the largest."""
LOOK_ALIKE_SEED = 2002


@lru_cache(maxsize=4)
def jobs_of(trace: Path | None, count: int, procs: int) -> tuple[SwfJob, ...]:
    """The first jobs of the trace; without one, of the Lublin model at the same load."""
    if trace is not None:
        return tuple(job for job in read_swf(trace, count) if job.procs <= procs)
    jobs = lublin(count, min(LARGEST, procs), np.random.default_rng(LOOK_ALIKE_SEED))
    work = sum(job.run_s * job.procs for job in jobs)
    span_s = jobs[-1].submit_s - jobs[0].submit_s
    scale = work / procs / LOAD / span_s
    return tuple(job._replace(submit_s=job.submit_s * scale) for job in jobs)


def applications_of(
    cloud: Cloud, options: Options, task: Task, tenant: Tenant = Tenant.FULL_DEADLINE
) -> tuple[Application, ...]:
    """The jobs with the deadlines, budgets and memory of a seed, at a level of contention."""
    count = FIRST // 10 if options.quick else FIRST
    terms = Assignment(node_memory_mib=cloud.memory_mib, boot_s=cloud.costs.boot_s, tenant=tenant)
    jobs = jobs_of(options.trace, count, cloud.cores)
    return contended(assign(jobs, terms, np.random.default_rng(task.seed)), task.level)
