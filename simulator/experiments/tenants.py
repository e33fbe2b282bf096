"""Figures 14 and 15 have the same runs: the market with tenants of each of the three kinds."""

from collections.abc import Sequence

from merkatd.policies.patience import Temper
from simulator.core.cloud import HPC2N
from simulator.experiments.experiment import Options, Row, Task
from simulator.experiments.figure_13 import LEVELS, QUICK_LEVELS
from simulator.experiments.inputs import applications_of
from simulator.experiments.systems import MARKET, run
from simulator.workloads.applications import Tenant

RUNS = "figures-14-15"
KINDS = (Tenant.FULL_DEADLINE, Tenant.PARTIAL_DEADLINE, Tenant.FULL_PERFORMANCE)


def tasks(options: Options) -> Sequence[Task]:
    """Each kind at each level."""
    chosen = QUICK_LEVELS if options.quick else LEVELS
    return [
        Task(kind.value, level, seed)
        for seed in range(options.seeds)
        for level in chosen
        for kind in KINDS
    ]


def measure(task: Task, options: Options) -> Row:
    """One kind, one level, one seed."""
    applications = applications_of(HPC2N, options, task, Tenant(task.system))
    return run(MARKET, applications, HPC2N, Temper(), task.seed)
