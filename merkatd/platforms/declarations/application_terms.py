"""What a platform's application is, as its tenant declares it: a job, a service, or tasks.

Amounts of work are in core-seconds: what a whole core does in a second. Speeds are in percent of a
core, as all amounts of CPU in templates, and memory is in MiB. Work, speeds and memory are those of
all VMs of the platform together.
"""

from dataclasses import dataclass

from merkatd.platforms.declarations.template_time import TemplateTime


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTerms:
    """A stage of a job."""

    work: float
    least_speed: float
    """The speed below which the stage can't run."""
    greatest_speed: float
    """The most that the stage can use."""
    memory_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerms:
    """An application with an amount of work and a goal for its end."""

    goal: TemplateTime | None = None
    """When the work should be done; None for the platform's deadline."""
    stages: tuple[StageTerms, ...] = ()
    """The stages in their order; empty if the work is unknown."""

    @property
    def work(self) -> float:
        """Return the work of all stages together."""
        return sum(stage.work for stage in self.stages)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTerms:
    """An application that answers requests, with a goal for the time of an answer."""

    response_goal_s: float
    cluster: str
    """The cluster whose monitor measures it."""
    work_per_request: float | None = None
    """None if it is unknown, or measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicatedTerms:
    """An application of tasks, of which a number must live for a time."""

    tasks: int
    """The number of tasks that must live; each VM is one."""
    run_time_s: float
    reliability: float
    """The wanted probability that so many tasks live for that time."""


ApplicationTerms = JobTerms | ServiceTerms | ReplicatedTerms
