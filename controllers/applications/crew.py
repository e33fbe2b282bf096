"""What a batch system's template says, and the workers that a platform has."""

from collections.abc import Mapping
from dataclasses import dataclass

from controllers.parameters import number, whole
from controllers.policies.queueing import Aim
from merkatd.platforms.ports import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The workers of a platform."""

    there: Mapping[int, int | None]
    """By VM: how many jobs run on it; None where it has not joined the batch system yet."""
    size: int
    """All of them, with those that are still being made."""

    @property
    def coming(self) -> int:
        """How many are still being made: they have no VM yet that could be named."""
        return self.size - len(self.there)

    @property
    def joined(self) -> int:
        """How many the batch system has."""
        return sum(one is not None for one in self.there.values())


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
        names = [one.name for one in assignment.clusters]
        found = cls(
            head=str(said.get("head", "head")),
            workers=str(said.get("workers", "workers")),
            aim=Aim(said.get("aim", Aim.THROUGHPUT)),
            target_s=number(said, "target_s"),
            slots=whole(said, "slots"),
            growth=whole(said, "growth"),
            patience=whole(said, "patience"),
            drain_limit_s=number(said, "drain_limit_s"),
        )
        for name in (found.head, found.workers):
            if name not in names:
                raise ValueError(f"there is no cluster {name!r}; there are {', '.join(names)}")
        return found
