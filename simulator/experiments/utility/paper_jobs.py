"""The nodes, jobs and service of the utility-placement paper's Experiments Two to Five.

The paper states speeds in MHz and work in Mcycles. A processor of its nodes has 3,900 MHz; here
that is a core, 100 units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.applications import Services
from simulator.kernel.data_center import DataCenter, KernelRhythm, tree_of_hosts
from simulator.model.simulated_cloud import CORE, OperationCosts
from simulator.workloads.declared_work import (
    DeclaredWork,
    declared_jobs,
    one_stage,
    service_requests,
)
from simulator.workloads.random_streams import StreamPurpose, stream_of
from simulator.workloads.vm_requests import VmRequests, joined

MHZ: Final = CORE / 3900.0
"""Units of a MHz."""
CYCLE_S: Final = 600.0
NODES: Final = 25
NODE_CPU: Final = 4 * CORE
NODE_MEMORY_MIB: Final = 16_000.0
JOB_MEMORY_MIB: Final = 4_320.0
MOST_PLACED: Final = 75
"""Three jobs have room in a node's memory."""
FREE: Final = OperationCosts(
    boot_s=0.0, suspend_s_per_mib=0.0, resume_s_per_mib=0.0, migrate_s_per_mib=0.0
)
"""Operations that take no time."""


@dataclass(frozen=True, slots=True)
class JobKind:
    """A kind of jobs and its probability."""

    part: float
    best_s: float
    """The time at the greatest speed."""
    mhz: float


IDENTICAL: Final = (JobKind(1.0, 17_600.0, 3_900.0),)
"""Table 3."""
MIXED: Final = (
    JobKind(0.1, 9_000.0, 3_900.0),
    JobKind(0.4, 17_600.0, 1_560.0),
    JobKind(0.5, 600.0, 2_340.0),
)
"""Experiment Four (section 5.4)."""


@dataclass(frozen=True, slots=True, eq=False)
class PaperJobs:
    """Jobs with their VMs."""

    requests: VmRequests
    declared: DeclaredWork
    factors: Floats
    """[jobs]: the relative goal factor, the time until the goal by the time at full speed."""
    kinds: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraw:
    """What jobs are drawn from."""

    gaps_s: Sequence[tuple[int, float]]
    """Numbers of jobs, and the mean times between the arrivals of so many."""
    factors: Sequence[tuple[float, float]]
    """Relative goal factors, and their probabilities."""
    kinds: Sequence[JobKind] = IDENTICAL


def draw_jobs(draw: JobDraw, seed: int) -> PaperJobs:
    """Return the jobs of a seed. Other factors or kinds change no arrival."""
    arrivals = stream_of(seed, StreamPurpose.ARRIVALS, "jobs")
    gaps = np.concatenate([arrivals.exponential(mean_s, n) for n, mean_s in draw.gaps_s])
    count, submitted_s = len(gaps), np.cumsum(gaps)
    goals = stream_of(seed, StreamPurpose.GOALS, "jobs")
    factors, parts = np.array(draw.factors).T
    factor = goals.choice(factors, count, p=parts)
    types = stream_of(seed, StreamPurpose.TYPES, "jobs")
    kind = types.choice(len(draw.kinds), count, p=[each.part for each in draw.kinds])
    best_s = np.array([each.best_s for each in draw.kinds])[kind]
    speed = np.array([each.mhz for each in draw.kinds])[kind] * MHZ
    stages = one_stage(best_s * speed, speed, np.full(count, JOB_MEMORY_MIB))
    requests, declared = declared_jobs(submitted_s, submitted_s + factor * best_s, stages)
    return PaperJobs(requests, declared, factor, kind)


def paper_center(costs: OperationCosts | None = None) -> DataCenter:
    """Return the 25 nodes of Table 3, in the rhythm of the paper's control cycle."""
    return DataCenter(
        hosts=tree_of_hosts((NODES,), [NODE_CPU, NODE_MEMORY_MIB]),
        costs=costs or OperationCosts(),
        rhythm=KernelRhythm(period_s=CYCLE_S, monitor_s=CYCLE_S, whole_plans=True),
    )


# -- the service of Experiment Five -----------------------------------------------------------

SERVICE_MEMORY_MIB: Final = 2_000.0
"""An instance has room beside three jobs."""
SERVICE_MOST: Final = 130_000.0 * MHZ
"""The paper's service can use no more."""
SERVICE_UTILITY: Final = 0.66
"""Its utility with that power."""
SERVICE_BASE: Final = 2_300.0
"""The CPU that its requests need. The paper prints no numbers of Figure 18. With these, the service
still has a utility when 75 jobs run at full speed, but a negative one."""
_REQUEST: Final = 5.0
"""The work of a request: 50 ms of a core."""
SERVICE: Final = 1_000_000
"""The number of the service's application."""


def with_service(jobs: PaperJobs) -> tuple[VmRequests, DeclaredWork]:
    """Return the jobs beside a service with an instance for each node."""
    size = np.array([SERVICE_MOST / NODES, SERVICE_MEMORY_MIB])
    requests = joined(jobs.requests, service_requests(SERVICE, NODES, size))
    declared = DeclaredWork(
        jobs=jobs.declared.jobs, stages=jobs.declared.stages, services=paper_service()
    )
    return requests, declared


def paper_service() -> Services:
    """Return the service: with its greatest power it has the paper's utility."""
    response_s = _REQUEST / (SERVICE_MOST - SERVICE_BASE)
    return Services(
        application=np.array([SERVICE]),
        response_goal_s=np.array([response_s / (1.0 - SERVICE_UTILITY)]),
        arrivals_per_s=np.array([SERVICE_BASE / _REQUEST]),
        work_per_request=np.array([_REQUEST]),
        response_s=np.array([np.nan]),
    )
