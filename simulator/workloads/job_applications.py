"""Applications made from jobs, with deadlines and budgets, and their outcomes.

A deadline is 1.5 to 10 times the application's time alone in the cloud. The budget of a task and
renewal period is inversely proportional to that factor: a tenant with more time pays less. If a
trace has no memory data, a task needs 10 to 50 % of a node's memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

import numpy as np

from merkatd.policies.deadline import full_deadline, full_performance, partial_deadline
from simulator.workloads.swf import SwfJob

KIB_A_MIB = 1024.0


class TenantKind(StrEnum):
    """The goal of an application's owner (Table 1)."""

    FULL_DEADLINE = "full-deadline"
    PARTIAL_DEADLINE = "partial-deadline"
    FULL_PERFORMANCE = "full-performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A fixed number of tasks, each a VM with a core, that progress at the same speed."""

    number: int
    submit_s: float
    run_s: float
    """Work of a task, in seconds on a whole core."""
    tasks: int
    memory_mib: float
    """Memory of a task."""
    ideal_s: float
    """t_ideal: time from submission to end alone in the cloud, including the boot."""
    deadline_s: float
    """Deadline, in seconds from the submission."""
    budget: float
    """B: credits per task and renewal period."""
    tenant: TenantKind = TenantKind.FULL_DEADLINE

    @property
    def due_s(self) -> float:
        """Return the deadline as a time."""
        return self.submit_s + self.deadline_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """The terms of applications: deadlines, budgets and memory."""

    node_memory_mib: float
    boot_s: float
    least_factor: float = 1.5
    most_factor: float = 10.0
    base_budget: float = 2000.0
    least_memory: float = 0.1
    most_memory: float = 0.5
    """Largest part of a node's memory of a task, even if the trace has more."""
    tenant: TenantKind = TenantKind.FULL_DEADLINE


def assign(
    jobs: Sequence[SwfJob], terms: TaskAssignment, rng: np.random.Generator
) -> tuple[Application, ...]:
    """Return the applications of these jobs; the first arrives at 0."""
    begin_s = jobs[0].submit_s if jobs else 0.0
    factors = rng.uniform(terms.least_factor, terms.most_factor, len(jobs))
    parts = rng.uniform(terms.least_memory, terms.most_memory, len(jobs))
    return tuple(
        _application(job, begin_s, float(factor), float(part), terms)
        for job, factor, part in zip(jobs, factors, parts, strict=True)
    )


def _application(
    job: SwfJob, begin_s: float, factor: float, part: float, terms: TaskAssignment
) -> Application:
    ideal_s = job.run_s + terms.boot_s
    wanted = job.memory_kib / KIB_A_MIB if job.memory_kib > 0 else part * terms.node_memory_mib
    return Application(
        number=job.number,
        submit_s=job.submit_s - begin_s,
        run_s=job.run_s,
        tasks=job.procs,
        memory_mib=min(wanted, terms.most_memory * terms.node_memory_mib),
        ideal_s=ideal_s,
        deadline_s=factor * ideal_s,
        budget=terms.base_budget / factor,
        tenant=terms.tenant,
    )


def contended(applications: Iterable[Application], scale: float) -> tuple[Application, ...]:
    """Return the applications with the times between their arrivals scaled (1 to 0.1)."""
    return tuple(
        replace(application, submit_s=application.submit_s * scale) for application in applications
    )


def bursts(
    applications: Iterable[Application], size: int, spread_s: float
) -> tuple[Application, ...]:
    """Return the applications in bursts of `size`; each burst starts with its first application.

    The applications of a burst arrive at even distances within `spread_s`.
    """
    arrived: list[Application] = []
    for row, application in enumerate(applications):
        place_in_burst = row % size
        begin_s = (
            application.submit_s if place_in_burst == 0 else arrived[row - place_in_burst].submit_s
        )
        arrived.append(replace(application, submit_s=begin_s + spread_s * place_in_burst / size))
    return tuple(sorted(arrived, key=lambda application: application.submit_s))


@dataclass(frozen=True, slots=True)
class ApplicationOutcome:
    """The outcome of an application."""

    application: Application
    end_s: float
    """End of its work; infinite if it never ended."""
    done: float
    """Part of its work done by its deadline."""

    @property
    def met(self) -> bool:
        """Return whether the work was done by the deadline."""
        return self.end_s <= self.application.due_s

    @property
    def satisfaction(self) -> float:
        """Return the satisfaction (Table 1), in credits."""
        application = self.application
        exec_s = self.end_s - application.submit_s
        match application.tenant:
            case TenantKind.FULL_DEADLINE:
                return full_deadline(application.budget, exec_s, application.deadline_s)
            case TenantKind.PARTIAL_DEADLINE:
                return partial_deadline(
                    application.budget, exec_s, application.deadline_s, self.done
                )
            case TenantKind.FULL_PERFORMANCE:
                return full_performance(
                    application.budget, exec_s, application.deadline_s, application.ideal_s
                )


def satisfaction(outcomes: Iterable[ApplicationOutcome]) -> float:
    """Return the total satisfaction of all tenants."""
    return sum(outcome.satisfaction for outcome in outcomes)


def met_part(outcomes: Iterable[ApplicationOutcome]) -> float:
    """Return the part of the applications that met their deadline."""
    met = [outcome.met for outcome in outcomes]
    return sum(met) / len(met) if met else 0.0


def by_start(application: Application, start_s: float, boot_s: float) -> ApplicationOutcome:
    """Return the outcome of an application that runs without interruption."""
    begin_s = start_s + boot_s
    end_s = begin_s + application.run_s
    in_time_s = min(max(application.due_s - begin_s, 0.0), application.run_s)
    done = in_time_s / application.run_s
    return ApplicationOutcome(application, end_s if start_s < inf else inf, done)
