"""How a batch queue does, and which of its workers are released.

A worker that is to go takes no more jobs (it is drained) and goes when its last one has ended; one
that had to be released because it can't be paid for goes at the latest after a limit. A worker
that is wanted again before it went takes jobs again: also one that was given a job just before it
was drained, where another has none and may go instead. A worker that is being made, or boots,
counts; it is drained once it has joined. One that has no host yet goes first, and at once.

Least wait (the paper's Torque): the time that the first job has waited, against a target. Greatest
throughput (its Condor): whether jobs wait at all, for as long as there is work for another VM.
"""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from merkatd.policies.deadline import HIGH, LOW
from merkatd.policies.vertical import Performance


@dataclass(frozen=True, slots=True)
class WorkerDrain:
    """What to do about workers, by VM."""

    drain: tuple[int, ...]
    restore: tuple[int, ...]
    release: tuple[int, ...]
    since_s: Mapping[int, float] = field(default_factory=dict)
    """When each of those that are being drained began to be: for the next time."""


def workers_to_release(
    jobs: Mapping[int, int | None],
    closed: AbstractSet[int],
    surplus: int,
    since_s: Mapping[int, float],
    now_s: float,
    limit_s: float,
    *,
    coming: int = 0,
    roomless: AbstractSet[int] = frozenset(),
    forced: int = 0,
    waiting: int = 0,
    looked_s: float = math.inf,
    shown_s: float = math.inf,
) -> WorkerDrain:
    """One step. `jobs` are those that run on each worker, None on one that has not joined yet.

    `surplus` of all workers are not wanted, of which `coming` are still being made, and `forced` of
    them can't be paid for. Those that are `roomless` have no host. `waiting` jobs have no worker
    yet: one of those is on its way to any worker that was seen without one. `closed` are those of
    which the batch system said, when it showed the jobs, that they take no more: one that was idle
    before it was drained may have been given a job meanwhile. It showed them at `looked_s`: a look
    from before the drain says nothing, as jobs may have begun in between, and one from after
    `shown_s` is of a clock that was set back since.
    """
    leaving = [vm for vm in since_s if vm in jobs]
    # Those that have been at it longest are nearest to being empty.
    leaving.sort(key=lambda vm: (jobs[vm] or 0, since_s[vm], vm))
    number = max(min(surplus, len(leaving)), surplus - coming, 0)
    others = sorted(jobs.keys() - set(leaving), key=lambda vm: _use(vm, jobs[vm], vm in closed))
    unused = [vm for vm in others if vm in roomless]
    chosen = [*unused, *leaving, *(vm for vm in others if vm not in roomless)]
    if not waiting:
        chosen.sort(key=lambda vm: bool(jobs[vm]))
    chosen = chosen[:number]
    new = [vm for vm in chosen if vm not in since_s and jobs[vm] is not None]
    kept = [vm for vm in chosen if vm in since_s]
    empty = [
        vm for vm in kept if vm in closed and jobs[vm] == 0 and since_s[vm] < looked_s <= shown_s
    ]
    late = [vm for vm in kept if vm not in empty and now_s - since_s[vm] >= limit_s]
    at_once = [*(vm for vm in chosen if vm in roomless), *empty]
    release = (*at_once, *late[: max(forced - len(at_once), 0)])
    going = {vm: since_s[vm] for vm in kept} | dict.fromkeys(new, now_s)
    return WorkerDrain(
        drain=tuple(new),
        restore=tuple(vm for vm in leaving if vm not in chosen),
        release=release,
        since_s={vm: began_s for vm, began_s in going.items() if vm not in release},
    )


def by_clock(
    since_s: Mapping[int, float], last_s: float, now_s: float, most_s: float
) -> dict[int, float]:
    """When the drains began, by the clock as it is now.

    Where it was set ahead since the last time, or nobody was there, only `most_s` count as passed;
    where it was set back, the drains begin now at the latest.
    """
    ahead_s = max(now_s - last_s - most_s, 0.0)
    return {vm: min(began_s + ahead_s, now_s) for vm, began_s in since_s.items()}


def _use(vm: int, jobs: int | None, closed: bool) -> tuple[bool, int, bool, int]:
    """Sort first the workers that have not joined, then the idle; the newest of both first.

    Of the idle those go before the others that somebody else closed.
    """
    return jobs is not None, jobs or 0, not closed, -vm


class Aim(StrEnum):
    """What a framework's tenant wants."""

    WAIT = "wait"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """A queue and its workers."""

    waiting: int
    wanted: int
    """Processors that waiting jobs ask for."""
    longest_s: float
    busy: int
    """Workers with jobs."""
    slots: int = 1
    """Processors of a worker."""

    @property
    def useful(self) -> int:
        """How many workers there is work for."""
        return self.busy + ceil(self.wanted / max(self.slots, 1))


def queue_performance(load: QueueLoad, aim: Aim, workers: int, target_s: float) -> Performance:
    """Slow where more workers are wanted, fast where some have nothing to do."""
    idle = workers > load.useful
    if aim is Aim.WAIT and load.waiting:
        # Jobs that wait are nobody's leisure: it is never fast.
        value = max(load.longest_s, LOW * target_s)
        return Performance(
            value=value, reference=target_s, low=LOW * target_s, high=HIGH * target_s
        )
    value = 2.0 if load.waiting else LOW / 2 if idle else (LOW + HIGH) / 2
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)
