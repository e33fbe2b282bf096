"""The performance of a batch queue, and the order in which its workers are released.

Draining: a surplus worker takes no more jobs, and is released when its last job has ended. A worker
that the tenant can't pay for is released after a time limit at the latest. A drained worker that is
needed again takes jobs again. So does a worker that got a job just before its drain, if an idle
worker can be released instead. Workers that are being created or boot count as workers; they are
drained once they have joined. A worker without a host is released first, and at once.

Two aims measure performance. Least wait (the paper's Torque) compares the waiting time of the first
job with a target. Greatest throughput (its Condor) is slow while any job waits, as long as there
is work for another VM.
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
    """The actions on workers, by VM id."""

    drain: tuple[int, ...]
    restore: tuple[int, ...]
    release: tuple[int, ...]
    since_s: Mapping[int, float] = field(default_factory=dict)
    """The start time of each drain in progress, for the next call."""


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
    """Return which workers to drain, restore and release in this step.

    - `jobs`: number of jobs on each worker; None if the worker has not joined yet.
    - `surplus`: number of workers to release. `coming` of all workers are still being created, and
      `forced` of the surplus can't be paid for.
    - `roomless`: workers without a host.
    - `waiting`: number of jobs without a worker. Each may already be on its way to a worker that
      the last report shows as idle.
    - `closed`: workers that take no more jobs, according to the batch system's report on `jobs`.
      An idle worker that is not closed may have got a job since.
    - `looked_s`: time of that report. A report from before the drain proves nothing, as jobs may
      have started in between. A report from after `shown_s` predates a clock that was set back.
    """
    leaving = [vm for vm in since_s if vm in jobs]
    # Of the workers with equally many jobs, the longest drain is the closest to its end.
    leaving.sort(key=lambda vm: (jobs[vm] or 0, since_s[vm], vm))
    number = max(min(surplus, len(leaving)), surplus - coming, 0)
    others = sorted(
        jobs.keys() - set(leaving), key=lambda vm: _release_order(vm, jobs[vm], vm in closed)
    )
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
    """Return the start times of the drains, corrected for jumps of the clock.

    If the clock was set ahead or the controller was away since the last call, only `most_s` of
    that time count. If the clock was set back, drains begin now at the latest.
    """
    ahead_s = max(now_s - last_s - most_s, 0.0)
    return {vm: min(began_s + ahead_s, now_s) for vm, began_s in since_s.items()}


def _release_order(vm: int, jobs: int | None, closed: bool) -> tuple[bool, int, bool, int]:
    """Return a sort key: workers that have not joined come first, then workers with few jobs.

    Of workers with equally many jobs, closed workers come first, then the newest.
    """
    return jobs is not None, jobs or 0, not closed, -vm


class QueueAim(StrEnum):
    """The aim of a batch system's tenant."""

    WAIT = "wait"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """The load of a queue and its workers."""

    waiting: int
    wanted: int
    """The number of processors that waiting jobs request."""
    longest_s: float
    busy: int
    """The number of workers with jobs."""
    slots: int = 1
    """The number of processors of a worker."""

    @property
    def useful(self) -> int:
        """Return the number of workers that have work."""
        return self.busy + ceil(self.wanted / max(self.slots, 1))


def queue_performance(load: QueueLoad, aim: QueueAim, workers: int, target_s: float) -> Performance:
    """Return a performance that is slow if more workers are needed, fast if some are idle."""
    idle = workers > load.useful
    if aim is QueueAim.WAIT and load.waiting:
        # Jobs wait: the queue must not count as fast, which would release workers.
        value = max(load.longest_s, LOW * target_s)
        return Performance(
            value=value, reference=target_s, low=LOW * target_s, high=HIGH * target_s
        )
    value = 2.0 if load.waiting else LOW / 2 if idle else (LOW + HIGH) / 2
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)
