"""Applications: the tables of jobs, stages, services and replicated task sets.

Each table is a dataclass, each column an array. Rows of hosts and VMs ascend by OpenNebula's id.
Units: CPU in percent of a core, memory in MiB, bids in credits per period, times in seconds. Work
is in percent of a core times seconds: a speed of 200 does a work of 600 in 3 seconds. Unknown
values are NaN in a column of numbers, -1 in a column of references.

Work, speeds and memory are those of all VMs of the application together. `application` is the value
of `vms.application` for its VMs.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from merkatd.cluster.columns import (
    Bools,
    Floats,
    Ints,
    Table,
    column_types,
    is_one_of,
    no_rows,
    number,
    reference,
    whole,
)
from merkatd.cluster.vms import VmKind

Kept = TypeVar("Kept", bound=Table)


@dataclass(frozen=True, slots=True, eq=False)
class Jobs(Table):
    """Applications with an amount of work and a time goal for its end."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    submitted_s: Floats = number(default=None)
    started_s: Floats = number(default=None)
    """When as many of its VMs as it needs ran for the first time; NaN before."""
    goal_s: Floats = number(default=None)
    work_done: Floats = number(default=0.0, from_0=True)
    """The finished work of all stages; 0 if it is unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Stages(Table):
    """The stages of jobs, in order; the rows of a job are adjacent."""

    key: ClassVar[str] = "job"
    job: Ints = reference("jobs")
    work: Floats = number(from_0=True)
    least_speed: Floats = number(default=0.0, from_0=True)
    greatest_speed: Floats = number(from_0=True)
    memory_mib: Floats = number(default=0.0, from_0=True)


@dataclass(frozen=True, slots=True, eq=False)
class Services(Table):
    """Applications with a goal for their response time."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    response_goal_s: Floats = number(from_0=True)
    arrivals_per_s: Floats = number(default=None, from_0=True)
    work_per_request: Floats = number(default=None, from_0=True)
    response_s: Floats = number(default=None, later=True, from_0=True)
    """The measured response time."""


@dataclass(frozen=True, slots=True, eq=False)
class Replicated(Table):
    """Applications that need a number of live tasks for a time, with a reliability."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    needed: Ints = whole()
    run_time_s: Floats = number(from_0=True)
    reliability: Floats = number(from_0=True)


@dataclass(frozen=True, slots=True, eq=False)
class ApplicationTables:
    """What the platforms of a cloud declare; the rows of each table ascend by application."""

    jobs: Jobs = field(default_factory=lambda: no_rows(Jobs))
    stages: Stages = field(default_factory=lambda: no_rows(Stages))
    services: Services = field(default_factory=lambda: no_rows(Services))
    replicated: Replicated = field(default_factory=lambda: no_rows(Replicated))

    def only(self, applications: Ints) -> "ApplicationTables":
        """Return the rows of these applications."""
        if not (len(self.jobs) or len(self.services) or len(self.replicated)):
            return self
        job, service, replicated = (
            np.isin(table.application, applications)
            for table in (self.jobs, self.services, self.replicated)
        )
        stage = job[self.stages.job]
        stages = _rows(self.stages, stage)
        stages = Stages(
            **(_columns(stages) | {"job": (np.cumsum(job) - 1)[self.stages.job[stage]]})
        )
        return ApplicationTables(
            jobs=_rows(self.jobs, job),
            stages=stages,
            services=_rows(self.services, service),
            replicated=_rows(self.replicated, replicated),
        )

    def kinds(self, application: Ints, stated: Ints) -> Ints:
        """Return [vms]: the kind that the VM's application declares; the stated one without any.

        A VM of a job is BATCH, and a VM of a service SERVICE, whatever its template states.
        """
        kind = np.where(is_one_of(application, self.jobs.application), VmKind.BATCH, stated)
        served = is_one_of(application, self.services.application)
        declared: Ints = np.where(served, VmKind.SERVICE, kind)
        return declared


NO_APPLICATIONS = ApplicationTables()


def _columns(table: Table) -> dict[str, Any]:
    return {name: getattr(table, name) for name in column_types(type(table))}


def _rows(table: Kept, rows: Bools) -> Kept:
    return type(table)(**{name: column[rows] for name, column in _columns(table).items()})
