"""First come, first served; EASY backfilling.

For Maui, with which the paper compares: estimates are the users' own, and a job that ends
earlier than its user said gives its processors back at once.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from simulator.workloads.swf import SwfJob


class TooLargeError(ValueError):
    """A job that can never run; the message names it and what there is."""


@dataclass(frozen=True, slots=True)
class Queued:
    """How a queue fared."""

    start_s: list[float]
    """Of each job, in the order given."""
    events: int
    """Arrivals and ends."""

    def mean_wait_s(self, jobs: Sequence[SwfJob]) -> float:
        """From submission to start."""
        waits = (start - job.submit_s for start, job in zip(self.start_s, jobs, strict=True))
        return sum(waits) / len(jobs)

    def mean_slowdown(self, jobs: Sequence[SwfJob]) -> float:
        """Waiting and running over running."""
        slow = (
            (start - job.submit_s + job.run_s) / job.run_s
            for start, job in zip(self.start_s, jobs, strict=True)
        )
        return sum(slow) / len(jobs)


def fcfs(jobs: Sequence[SwfJob], procs: int) -> Queued:
    """Run the jobs, which are in order of submission, on so many processors."""
    largest = max(jobs, key=lambda job: job.procs, default=None)
    if largest is not None and largest.procs > procs:
        raise TooLargeError(f"job {largest.number} wants {largest.procs} of {procs} processors")
    start_s = [inf] * len(jobs)
    free, arrived = procs, 0
    ends: list[tuple[float, int]] = []
    queue: deque[int] = deque()
    while arrived < len(jobs) or queue:
        next_end = ends[0][0] if ends else inf
        now_s = min(jobs[arrived].submit_s if arrived < len(jobs) else inf, next_end)
        while ends and ends[0][0] <= now_s:
            free += heapq.heappop(ends)[1]
        while arrived < len(jobs) and jobs[arrived].submit_s <= now_s:
            queue.append(arrived)
            arrived += 1
        while queue and jobs[queue[0]].procs <= free:
            row = queue.popleft()
            job = jobs[row]
            free -= job.procs
            start_s[row] = now_s
            heapq.heappush(ends, (now_s + job.run_s, job.procs))
    return Queued(start_s, 2 * len(jobs))


def easy(jobs: Sequence[SwfJob], procs: int) -> Queued:
    """Run the jobs, which are in order of submission, on so many processors."""
    largest = max(jobs, key=lambda job: job.procs, default=None)
    if largest is not None and largest.procs > procs:
        raise TooLargeError(f"job {largest.number} wants {largest.procs} of {procs} processors")
    run = _EasyRun(jobs, procs)
    arrived = 0
    while arrived < len(jobs) or run.queue:
        next_end = run.ends[0][0] if run.ends else inf
        now_s = min(jobs[arrived].submit_s if arrived < len(jobs) else inf, next_end)
        run.end_until(now_s)
        while arrived < len(jobs) and jobs[arrived].submit_s <= now_s:
            run.queue.append(arrived)
            arrived += 1
        run.start_what_may(now_s)
    return Queued(run.start_s, 2 * len(jobs))


class _EasyRun:
    """Who runs, who waits."""

    def __init__(self, jobs: Sequence[SwfJob], procs: int) -> None:
        self.jobs = jobs
        self.free = procs
        self.queue: list[int] = []
        self.ends: list[tuple[float, int]] = []
        self.start_s = [inf] * len(jobs)
        self._promised: dict[int, float] = {}
        """By running job: when it ends by its user's estimate."""

    def end_until(self, now_s: float) -> None:
        """Take back the processors of those that have ended."""
        while self.ends and self.ends[0][0] <= now_s:
            _, row = heapq.heappop(self.ends)
            self.free += self.jobs[row].procs
            del self._promised[row]

    def start_what_may(self, now_s: float) -> None:
        """The first as long as there is room; then whoever does not delay the next first."""
        while self.queue and self.jobs[self.queue[0]].procs <= self.free:
            self._start(self.queue.pop(0), now_s)
        if not self.queue or self.free == 0:
            return
        shadow_s, extra = self._reservation(now_s)
        waiting = [self.queue[0]]
        for row in self.queue[1:]:
            job = self.jobs[row]
            in_time = now_s + _estimate(job) <= shadow_s
            if job.procs <= self.free and (in_time or job.procs <= extra):
                self._start(row, now_s)
                extra -= 0 if in_time else job.procs
            else:
                waiting.append(row)
        self.queue = waiting

    def _start(self, row: int, now_s: float) -> None:
        job = self.jobs[row]
        self.free -= job.procs
        self.start_s[row] = now_s
        self._promised[row] = now_s + _estimate(job)
        heapq.heappush(self.ends, (now_s + job.run_s, row))

    def _reservation(self, now_s: float) -> tuple[float, int]:
        """When the first in the queue starts at the latest, and what is left over then."""
        wanted, free = self.jobs[self.queue[0]].procs, self.free
        for end_s, row in sorted((end_s, row) for row, end_s in self._promised.items()):
            free += self.jobs[row].procs
            if free >= wanted:
                return max(end_s, now_s), free - wanted
        return inf, 0


def _estimate(job: SwfJob) -> float:
    """The user's, or the truth where there is none; nobody is ended for having said too little."""
    return max(job.requested_s, job.run_s) if job.requested_s > 0 else job.run_s
