"""Applications: the tables of jobs, stages, services and replicated task sets.

Each table is a dataclass, each column an array. Rows of hosts and VMs ascend by OpenNebula's id.
Units: CPU in percent of a core, memory in MiB, bids in credits per period, times in seconds.
Unknown values are NaN in a column of numbers, -1 in a column of references.
"""

from dataclasses import dataclass
from typing import ClassVar

from merkatd.cluster.columns import Floats, Ints, Table, number, reference, whole


@dataclass(frozen=True, slots=True, eq=False)
class Jobs(Table):
    """Applications with an amount of work and a time goal for its end."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    submitted_s: Floats = number(default=None)
    started_s: Floats = number(default=None)
    goal_s: Floats = number(default=None)
    work_done: Floats = number(default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Stages(Table):
    """The stages of jobs, in order; the rows of a job are adjacent."""

    key: ClassVar[str] = "job"
    job: Ints = reference("jobs")
    work: Floats = number()
    least_speed: Floats = number(default=0.0)
    greatest_speed: Floats = number()
    memory_mib: Floats = number(default=0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Services(Table):
    """Applications with a goal for their response time."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    response_goal_s: Floats = number()
    arrivals_per_s: Floats = number()
    work_per_request: Floats = number()


@dataclass(frozen=True, slots=True, eq=False)
class Replicated(Table):
    """Applications that need a number of live tasks for a time, with a reliability."""

    key: ClassVar[str] = "application"
    application: Ints = whole()
    needed: Ints = whole()
    run_time_s: Floats = number()
    reliability: Floats = number()
