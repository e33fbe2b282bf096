"""What a batch system's template says, and the workers that a platform has."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from merkatd.base.parameter_bounds import number, whole
from merkatd.policies.batch_queue import Aim
from merkatd.policies.batch_terms import aim_of, head_of, missing, workers_of
from merkatd.protocol.platform_messages import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The workers of a platform."""

    there: Mapping[int, int | None]
    """By VM: how many jobs run on it; None where it has not joined the batch system yet."""
    size: int
    """All of them, with those that are still being made."""
    roomless: AbstractSet[int] = frozenset()
    """Those that have never had a host."""
    away: AbstractSet[int] = frozenset()
    """Those that have been away for too long to be waited for."""

    @property
    def coming(self) -> int:
        """How many are still being made: they have no VM yet that could be named."""
        return self.size - len(self.there)

    @property
    def settled(self) -> bool:
        """Whether none is still coming: the batch system has all that are not away for long."""
        return (
            all(jobs is not None or vm in self.away for vm, jobs in self.there.items())
            and not self.coming
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What the template says."""

    head: str
    workers: str
    aim: Aim
    target_s: float
    """How long a job may wait, for the aim `wait`."""
    slots: int
    growth: int
    patience: int
    drain_limit_s: float

    @classmethod
    def of(cls, assignment: Assignment) -> "Wants":
        """ValueError where it says something that can't be."""
        said = assignment.parameters
        found = cls(
            head=head_of(said),
            workers=workers_of(said),
            aim=aim_of(said),
            target_s=number(said, "target_s"),
            slots=whole(said, "slots"),
            growth=whole(said, "growth"),
            patience=whole(said, "patience"),
            drain_limit_s=number(said, "drain_limit_s"),
        )
        for problem in missing(said, [one.name for one in assignment.clusters]):
            raise ValueError(problem)
        return found
