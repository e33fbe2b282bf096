"""Workers that are missing in their batch system: lost, waiting for a host, or away.

- A worker that is powered off is released after `off_limit_s`.
- A worker that runs, or whose state OpenNebula does not know, is released after `boot_limit_s`. So
  is a worker that is booting and has never joined.
- A worker that waits for a host has no jobs. A replacement would wait as well, so it stays while
  there is work, and is released at once when there is none.
- All other workers, such as migrating or suspended ones, may come back with their jobs.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from controllers.applications.market_position import OFF, SEEN, overdue_vms
from merkatd.base.parameter_bounds import number
from merkatd.policies.batch_queue import by_clock
from merkatd.protocol.platform_messages import News, VmNow

_OFF, _ABSENT, _LOOKED_S = "off", "absent", "looked_s"
_JOINED, _AWAY, _TOLD_S = "joined", "away", "told_s"
_ON_ITS_WAY: Final = frozenset({"busy", "pending"})
"""A pending worker counts as well once the last period has found a host for it."""
_KEPT: Final = 1_000
"""The number of absent workers that are remembered as having joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingVms:
    """Workers that the batch system does not show."""

    lost: AbstractSet[int]
    """Workers to release: powered off, or not joined, for too long."""
    roomless: AbstractSet[int]
    """Workers that have never had a host: they can't have jobs."""
    away: AbstractSet[int]
    """Workers that have been away too long to wait for them."""


class Joining:
    """The record, in a controller's memory, of workers that have joined or are missing."""

    def __init__(
        self, memory: dict[str, Any], parameters: Mapping[str, Any], silence_s: float
    ) -> None:
        """Use a controller's memory.

        If the time between two looks exceeds `silence_s`, that time does not count.
        """
        self._memory = memory
        self._parameters = parameters
        self._silence_s = silence_s

    def missing(
        self, news: News, workers: Sequence[VmNow], jobs: Mapping[int, int], looked_s: float
    ) -> MissingVms:
        """Return the missing workers; the look at `looked_s` showed the workers in `jobs`."""
        joined = self._joined(workers, jobs)
        unseen = [worker for worker in workers if worker.vm not in jobs and worker.state != OFF]
        roomless = {worker.vm for worker in unseen if _waits(worker) and worker.vm not in joined}
        absent = [
            worker.vm
            for worker in unseen
            if worker.state in SEEN
            or (worker.state in _ON_ITS_WAY and worker.vm not in joined | roomless)
        ]
        off = [worker.vm for worker in workers if worker.state == OFF]
        others = {worker.vm for worker in unseen} - {*absent}
        since = self._absent_since(looked_s)
        return MissingVms(
            lost={
                *self._late(_OFF, off, self._off_since(news.at_s), news.at_s, "off_limit_s"),
                *self._late(_ABSENT, absent, since, looked_s, "boot_limit_s"),
            },
            roomless=roomless,
            away=self._away(others, news.at_s),
        )

    def _joined(self, workers: Iterable[VmNow], jobs: Mapping[int, int]) -> AbstractSet[int]:
        """Record the workers that have joined, and return those of them in the news."""
        known = {*map(int, self._memory.get(_JOINED, ())), *jobs}
        here = known & {worker.vm for worker in workers}
        self._memory[_JOINED] = [*sorted(known - here)[-_KEPT:], *sorted(here)]
        return here

    def _late(
        self, key: str, missed: Iterable[int], since: Mapping[str, float], at_s: float, limit: str
    ) -> Sequence[int]:
        limit_s = number(self._parameters, limit)
        self._memory[key], late = overdue_vms(missed, since, at_s, limit_s)
        return late

    def _off_since(self, at_s: float) -> dict[str, float]:
        """Return since when workers have been off, corrected for jumps of the clock."""
        last_s = float(self._memory.get(_TOLD_S, at_s))
        self._memory[_TOLD_S] = at_s
        known = {int(vm): since_s for vm, since_s in self._memory.get(_OFF, {}).items()}
        since = by_clock(known, last_s, at_s, self._silence_s)
        return {str(vm): since_s for vm, since_s in since.items()}

    def _absent_since(self, looked_s: float) -> dict[str, float]:
        """Return since when workers have been absent; a silence between looks does not count.

        During a silence nothing is known of workers, and if the head was away, none could join.
        """
        last_s = float(self._memory.get(_LOOKED_S, looked_s))
        self._memory[_LOOKED_S] = looked_s
        most_s = 0.0 if looked_s - last_s > self._silence_s else math.inf
        known = {int(vm): since_s for vm, since_s in self._memory.get(_ABSENT, {}).items()}
        since = by_clock(known, last_s, looked_s, most_s)
        return {str(vm): since_s for vm, since_s in since.items()}

    def _away(self, others: AbstractSet[int], at_s: float) -> AbstractSet[int]:
        """Return the workers that have been away for as long as a worker may take to join."""
        before = self._memory.get(_AWAY, {})
        since = {vm: float(before.get(str(vm), at_s)) for vm in sorted(others)}
        self._memory[_AWAY] = {str(vm): since_s for vm, since_s in since.items()}
        limit_s = number(self._parameters, "boot_limit_s")
        return {vm for vm, since_s in since.items() if abs(at_s - since_s) >= limit_s}


def _waits(worker: VmNow) -> bool:
    """Return whether a worker has no host, and the last period found none for it."""
    return worker.state == "pending" and not any(worker.allocation.values())
