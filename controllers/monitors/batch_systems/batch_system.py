"""What a batch system must be able to say and do, so that its cluster can grow and shrink.

Adapters only write the commands and read the answers; all commands run over SSH on the VM that
is the head. A worker is known by the name it has in the batch system.
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
    """That run on it now."""
    drained: bool = False
    """It takes no more."""
    lost: bool = False
    """The batch system does not hear it, or will start nothing there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """All jobs and workers, at one moment."""

    waiting: int
    """Jobs that wait,"""
    wanted: int
    """and the processors they ask for together."""
    longest_s: float
    """How long the first of them has waited."""
    running: int
    workers: Mapping[str, Worker] = field(default_factory=dict)


LEFT: Final = "--left--"
"""The line before the names of workers that could not be forgotten."""


class Batch(Protocol):
    """An adapter."""

    def look(self) -> str:
        """The command that shows the queue and the workers."""

    def read(self, answer: str) -> Queue:
        """What it says. ValueError where that can't be understood."""

    def drain(self, workers: Iterable[str]) -> str:
        """The command after which these take no more jobs; what runs on them goes on."""

    def restore(self, workers: Iterable[str]) -> str:
        """The command that takes that back."""

    def forget(self, workers: Iterable[str]) -> str:
        """The command that takes workers that are gone off the list, and says which it left there.

        Their names follow a line `LEFT`.
        """


def left_of(answer: str) -> frozenset[str] | None:
    """The workers that could not be forgotten; None where the answer does not say that."""
    _, mark, names = answer.partition(f"{LEFT}\n")
    return frozenset(names.splitlines()) if mark else None


def age_s(since: str, now: str) -> float:
    """Both as the head's clock writes them; 0 where it wrote no time."""
    try:
        passed = datetime.fromisoformat(now) - datetime.fromisoformat(since)
    except (ValueError, TypeError):  # only one of them has a zone
        return 0.0
    return max(0.0, passed.total_seconds())
