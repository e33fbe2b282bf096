"""The interface of a batch system whose cluster can grow and shrink.

Adapters only write commands and parse answers; all commands run over SSH on the head VM. Workers
are identified by their names in the batch system.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One VM that runs jobs."""

    name: str
    jobs: int
    """The number of running jobs."""
    drained: bool = False
    """Whether the worker takes no more jobs."""
    lost: bool = False
    """Whether the batch system has no contact to the worker, or starts no more jobs there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """All jobs and workers at one moment."""

    waiting: int
    """The number of waiting jobs."""
    wanted: int
    """The number of processors that all waiting jobs request."""
    longest_s: float
    """The waiting time of the first waiting job."""
    running: int
    workers: Mapping[str, Worker] = field(default_factory=dict)


LEFT: Final = "--left--"
"""The line before the names of workers that could not be removed."""


class Batch(Protocol):
    """The adapter of a batch system."""

    def look(self) -> str:
        """Return the command that shows the queue and the workers."""

    def read(self, answer: str) -> Queue:
        """Parse the answer to `look`. Raise ValueError if it is invalid."""

    def drain(self, workers: Iterable[str]) -> str:
        """Return the command after which workers take no more jobs; running jobs go on."""

    def restore(self, workers: Iterable[str]) -> str:
        """Return the command that reverses a drain."""

    def forget(self, workers: Iterable[str]) -> str:
        """Return the command that removes workers that are gone.

        Its answer has a line `LEFT`, then the names of the workers that could not be removed.
        """


def left_of(answer: str) -> frozenset[str] | None:
    """Return the workers that could not be removed; None if the answer is invalid."""
    _, mark, names = answer.partition(f"{LEFT}\n")
    return frozenset(names.splitlines()) if mark else None


def age_s(since: str, now: str) -> float:
    """Return the seconds between two times of the head's clock; 0 if one of them is invalid."""
    try:
        passed = datetime.fromisoformat(now) - datetime.fromisoformat(since)
    except (ValueError, TypeError):  # TypeError: only one of them has a time zone
        return 0.0
    return max(0.0, passed.total_seconds())
