"""The result of a run of the market in virtual time, and the check of its applications."""

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.baselines.queue_baselines import TooLargeError
from simulator.model.simulated_cloud import SimulatedCloud
from simulator.workloads.job_applications import Application, ApplicationOutcome

DONE = 1e-6
"""Remaining work, in seconds, that counts as done."""


@dataclass(slots=True)
class OperationCounts:
    """Counts of periods and operations."""

    periods: int = 0
    """Number of periods, with or without changes."""
    decisions: int = 0
    """Number of periods with a new decision."""
    migrations: int = 0
    suspensions: int = 0
    """Number of suspensions of applications."""
    vm_suspensions: int = 0
    """Number of suspensions of VMs."""
    resumes: int = 0
    vm_resumes: int = 0


@dataclass(frozen=True, slots=True)
class MarketRun:
    """The outcomes and costs of a run."""

    outcomes: tuple[ApplicationOutcome, ...]
    counts: OperationCounts
    span_s: float
    """Virtual time from the first arrival to the last end."""
    prices: tuple[tuple[float, float], ...]
    """Pairs of time and price of a unit of CPU, at each change."""
    spent: tuple[float, ...]
    """Credits that each application paid."""


def check_sizes(applications: Sequence[Application], cloud: SimulatedCloud) -> None:
    """Raise TooLargeError if an application needs more cores than there are."""
    for application in applications:
        if application.tasks > cloud.cores:
            raise TooLargeError(
                f"job {application.number} needs {application.tasks} of {cloud.cores} cores"
            )
