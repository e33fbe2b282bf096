"""What a batch system's template says, and the workers that a platform has."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controllers.parameters import number, whole
from controllers.policies.queueing import Aim
from merkatd.platforms.ports import Assignment

_QUEUE: Final = "queue"
"""The monitor that sees a batch system."""


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
        found = cls(
            head=_head(said),
            workers=_workers(said),
            aim=Aim(said.get("aim", Aim.THROUGHPUT)),
            target_s=number(said, "target_s"),
            slots=whole(said, "slots"),
            growth=whole(said, "growth"),
            patience=whole(said, "patience"),
            drain_limit_s=number(said, "drain_limit_s"),
        )
        for problem in _missing(said, [one.name for one in assignment.clusters]):
            raise ValueError(problem)
        return found


def unserved(
    said: Mapping[str, Any], monitors: Mapping[str, str | None], built_in: Collection[str]
) -> Iterator[str]:
    """What of a template's clusters can't be served; `monitors`: the kind of each one's monitor.

    A kind that is not built in is a site's own, and may see a batch system as well.
    """
    head, workers = _head(said), _workers(said)
    yield from _missing(said, [*monitors])
    if head == workers:
        yield f"cluster {head!r} can't be both the head and the workers"
    kind = monitors.get(head)
    if head in monitors and (kind is None or kind in {*built_in} - {_QUEUE}):
        yield f"cluster {head!r}: its monitor is to be of kind {_QUEUE}"
    for name in monitors:
        if name not in {head, workers}:
            yield f"cluster {name!r}: elastic bids for {head!r} and {workers!r} only"


def _missing(said: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    for name in (_head(said), _workers(said)):
        if name not in names:
            yield f"there is no cluster {name!r}; there are {', '.join(names)}"


def _head(said: Mapping[str, Any]) -> str:
    return str(said.get("head", "head"))


def _workers(said: Mapping[str, Any]) -> str:
    return str(said.get("workers", "workers"))
