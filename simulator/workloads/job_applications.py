"""Jobs become applications with deadlines and budgets; how they fared.

A deadline is 1.5 to 10 times what the application takes alone in the cloud, and the budget of a
task and renewal period is inversely proportional to that factor: who is in less of a hurry
pays less. Where a trace says nothing of memory, a task needs 10 to 50 % of a node's.
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
    """What an application's owner wants (Table 1)."""

    FULL_DEADLINE = "full-deadline"
    PARTIAL_DEADLINE = "partial-deadline"
    FULL_PERFORMANCE = "full-performance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A fixed number of tasks, each a VM with one core, that work in step."""

    number: int
    submit_s: float
    run_s: float
    """The work of a task, in seconds on a core of its own."""
    tasks: int
    memory_mib: float
    """Of a task."""
    ideal_s: float
    """t_ideal: alone in the cloud, from its submission, the boot included."""
    deadline_s: float
    """From its submission."""
    budget: float
    """B: credits of a task and renewal period."""
    tenant: TenantKind = TenantKind.FULL_DEADLINE

    @property
    def due_s(self) -> float:
        """The deadline as a time."""
        return self.submit_s + self.deadline_s


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """What applications are given."""

    node_memory_mib: float
    boot_s: float
    least_factor: float = 1.5
    most_factor: float = 10.0
    base_budget: float = 2000.0
    least_memory: float = 0.1
    most_memory: float = 0.5
    """Parts of a node's memory; more is not given to a task that asks for it either."""
    tenant: TenantKind = TenantKind.FULL_DEADLINE


def assign(
    jobs: Sequence[SwfJob], terms: TaskAssignment, rng: np.random.Generator
) -> tuple[Application, ...]:
    """The applications of these jobs, the first of which comes at 0."""
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
    """The same applications, with the times between their arrivals scaled (1 to 0.1)."""
    return tuple(replace(one, submit_s=one.submit_s * scale) for one in applications)


def bursts(
    applications: Iterable[Application], size: int, spread_s: float
) -> tuple[Application, ...]:
    """The same applications, so many at a time: each burst comes when its first would have.

    Those of a burst follow each other at even distances within `spread_s`.
    """
    found: list[Application] = []
    for row, one in enumerate(applications):
        behind = row % size
        begin_s = one.submit_s if behind == 0 else found[row - behind].submit_s
        found.append(replace(one, submit_s=begin_s + spread_s * behind / size))
    return tuple(sorted(found, key=lambda one: one.submit_s))


@dataclass(frozen=True, slots=True)
class ApplicationOutcome:
    """The end of one application."""

    application: Application
    end_s: float
    """When its work was done; infinite where that never was."""
    done: float
    """The part of its work that was done by its deadline."""

    @property
    def met(self) -> bool:
        """Whether it was done by its deadline."""
        return self.end_s <= self.application.due_s

    @property
    def satisfaction(self) -> float:
        """Table 1, in credits."""
        one = self.application
        exec_s = self.end_s - one.submit_s
        match one.tenant:
            case TenantKind.FULL_DEADLINE:
                return full_deadline(one.budget, exec_s, one.deadline_s)
            case TenantKind.PARTIAL_DEADLINE:
                return partial_deadline(one.budget, exec_s, one.deadline_s, self.done)
            case TenantKind.FULL_PERFORMANCE:
                return full_performance(one.budget, exec_s, one.deadline_s, one.ideal_s)


def satisfaction(outcomes: Iterable[ApplicationOutcome]) -> float:
    """Of all tenants together."""
    return sum(outcome.satisfaction for outcome in outcomes)


def met_part(outcomes: Iterable[ApplicationOutcome]) -> float:
    """The part of the applications that met their deadline."""
    met = [outcome.met for outcome in outcomes]
    return sum(met) / len(met) if met else 0.0


def by_start(application: Application, start_s: float, boot_s: float) -> ApplicationOutcome:
    """Of one that is never interrupted."""
    begin_s = start_s + boot_s
    end_s = begin_s + application.run_s
    in_time_s = min(max(application.due_s - begin_s, 0.0), application.run_s)
    done = in_time_s / application.run_s
    return ApplicationOutcome(application, end_s if start_s < inf else inf, done)
