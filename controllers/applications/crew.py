"""What a batch system's template says, and the workers that a platform has."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from controllers.monitors.naming import WORKER
from controllers.monitors.queues.systems import BATCH, batch_of
from controllers.parameters import number, whole
from controllers.policies.queueing import Aim
from merkatd.platforms.ports import Assignment, Monitor

QUEUE: Final = "queue"
"""The monitor that sees a batch system."""


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
            head=_head(said),
            workers=_workers(said),
            aim=_aim(said),
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
    said: Mapping[str, Any], monitors: Mapping[str, Monitor | None], built_in: Collection[str]
) -> Iterator[str]:
    """Say what of a template can't be served; `monitors` are those of its clusters, by name.

    A kind that is not built in is a site's own, and may see a batch system as well.
    """
    for read in (_aim, batch_of):
        try:
            read(said)
        except ValueError as error:
            yield f"controller.{error}"
    head, workers = _head(said), _workers(said)
    yield from _missing(said, [*monitors])
    if head == workers:
        yield f"cluster {head!r} can't be both the head and the workers"
    monitor = monitors.get(head)
    if head in monitors and (monitor is None or monitor.kind in {*built_in} - {QUEUE}):
        yield f"cluster {head!r}: its monitor is to be of kind {QUEUE}"
    if monitor is not None and monitor.kind == QUEUE:
        yield from _different(said, monitor.parameters, head)
    for name in monitors:
        if name not in {head, workers}:
            yield f"cluster {name!r}: elastic bids for {head!r} and {workers!r} only"


def _different(said: Mapping[str, Any], seen: Mapping[str, Any], head: str) -> Iterator[str]:
    """Say what the controller calls otherwise than the monitor that tells it of that."""
    for name, usual in (("worker", WORKER), ("batch", BATCH)):
        mine, other = str(said.get(name, usual)), str(seen.get(name, usual))
        if mine != other:
            yield (
                f"controller.parameters.{name} = {mine!r}, and the monitor of cluster {head!r} has"
                f" {other!r}: they must be the same"
            )


def _aim(said: Mapping[str, Any]) -> Aim:
    """Return the aim that a template names. Raise ValueError where there is none such."""
    name = said.get("aim", Aim.THROUGHPUT)
    try:
        return Aim(name)
    except ValueError:
        raise ValueError(f"parameters.aim = {name!r}: one of {', '.join(Aim)} is right") from None


def _missing(said: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    for name in (_head(said), _workers(said)):
        if name not in names:
            yield f"there is no cluster {name!r}; there are {', '.join(names)}"


def _head(said: Mapping[str, Any]) -> str:
    return str(said.get("head", "head"))


def _workers(said: Mapping[str, Any]) -> str:
    return str(said.get("workers", "workers"))
