"""Which workers are released, and when: emptied of jobs first, the idle before the busy.

A worker that is to go takes no more jobs (it is drained) and goes when its last one has ended; one
that had to be released because it can't be paid for goes at the latest after a limit. A worker
that is wanted again before it went takes jobs again. A worker that is being made, or boots, counts;
it is drained once it has joined.
"""

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Draining:
    """What to do about workers, by VM."""

    drain: tuple[int, ...]
    restore: tuple[int, ...]
    release: tuple[int, ...]
    since_s: Mapping[int, float] = field(default_factory=dict)
    """When each of those that are being drained began to be: for the next time."""


def drained(
    jobs: Mapping[int, int | None],
    closed: AbstractSet[int],
    surplus: int,
    since_s: Mapping[int, float],
    now_s: float,
    limit_s: float,
    *,
    coming: int = 0,
    looked_s: float = math.inf,
) -> Draining:
    """One step. `jobs` are those that run on each worker, None on one that has not joined yet.

    `surplus` of all workers are not wanted, of which `coming` are still being made. `closed` are
    those of which the batch system said, when it showed the jobs, that they take no more: one that
    was idle before it was drained may have been given a job meanwhile. It showed them at
    `looked_s`: a look from before the drain says nothing, as jobs may have begun in between.
    """
    leaving = [vm for vm in since_s if vm in jobs]
    # Those that have been at it longest are nearest to being empty.
    leaving.sort(key=lambda vm: (jobs[vm] or 0, since_s[vm], vm))
    kept = leaving[: max(surplus, 0)]
    others = sorted(jobs.keys() - set(leaving), key=lambda vm: _use(vm, jobs[vm]))
    chosen = others[: max(surplus - len(kept) - coming, 0)]
    new = [vm for vm in chosen if jobs[vm] is not None]
    going = {vm: since_s[vm] for vm in kept} | dict.fromkeys(new, now_s)
    release = tuple(
        vm
        for vm, began_s in going.items()
        if vm in kept
        and (
            (vm in closed and jobs[vm] == 0 and looked_s > began_s)
            or abs(now_s - began_s) >= limit_s
        )
    )
    return Draining(
        drain=tuple(new),
        restore=tuple(leaving[max(surplus, 0) :]),
        release=release,
        since_s={vm: began_s for vm, began_s in going.items() if vm not in release},
    )


def _use(vm: int, jobs: int | None) -> tuple[bool, int, int]:
    """Sort first the workers that have not joined, then the idle; of both the newest first."""
    return jobs is not None, jobs or 0, -vm
