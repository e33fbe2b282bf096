"""Queue baselines: first come, first served; EASY backfilling.

EASY stands for Maui, the paper's baseline: estimates are the users' own, and a job that ends
earlier than estimated frees its processors at once.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from simulator.workloads.swf import SwfJob


class TooLargeError(ValueError):
    """Raised for a job that can never run; the message names the job and the capacity."""


@dataclass(frozen=True, slots=True)
class Queued:
    """The start times of a queue's jobs."""

    start_s: list[float]
    """Start time of each job, in the given order."""
    events: int
    """Number of arrivals and ends."""

    def mean_wait_s(self, jobs: Sequence[SwfJob]) -> float:
        """Return the mean time from submission to start."""
        waits = (start - job.submit_s for start, job in zip(self.start_s, jobs, strict=True))
        return sum(waits) / len(jobs)

    def mean_slowdown(self, jobs: Sequence[SwfJob]) -> float:
        """Return the mean of (wait + run time) / run time."""
        slow = (
            (start - job.submit_s + job.run_s) / job.run_s
            for start, job in zip(self.start_s, jobs, strict=True)
        )
        return sum(slow) / len(jobs)


def _check_sizes(jobs: Sequence[SwfJob], procs: int) -> None:
    """Raise TooLargeError if a job needs more processors than there are."""
    largest = max(jobs, key=lambda job: job.procs, default=None)
    if largest is not None and largest.procs > procs:
        raise TooLargeError(f"job {largest.number} needs {largest.procs} of {procs} processors")


def fcfs(jobs: Sequence[SwfJob], procs: int) -> Queued:
    """Run the jobs, in order of submission, on `procs` processors."""
    _check_sizes(jobs, procs)
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
    """Run the jobs, in order of submission, on `procs` processors."""
    _check_sizes(jobs, procs)
    run = _EasyRun(jobs, procs)
    arrived = 0
    while arrived < len(jobs) or run.queue:
        next_end = run.ends[0][0] if run.ends else inf
        now_s = min(jobs[arrived].submit_s if arrived < len(jobs) else inf, next_end)
        run.end_until(now_s)
        while arrived < len(jobs) and jobs[arrived].submit_s <= now_s:
            run.queue.append(arrived)
            arrived += 1
        run.start_jobs(now_s)
    return Queued(run.start_s, 2 * len(jobs))


class _EasyRun:
    """The running and waiting jobs of EASY."""

    def __init__(self, jobs: Sequence[SwfJob], procs: int) -> None:
        self.jobs = jobs
        self.free = procs
        self.queue: list[int] = []
        self.ends: list[tuple[float, int]] = []
        self.start_s = [inf] * len(jobs)
        self._promised: dict[int, float] = {}
        """By running job: its end by its user's estimate."""

    def end_until(self, now_s: float) -> None:
        """Free the processors of jobs that have ended."""
        while self.ends and self.ends[0][0] <= now_s:
            _, row = heapq.heappop(self.ends)
            self.free += self.jobs[row].procs
            del self._promised[row]

    def start_jobs(self, now_s: float) -> None:
        """Start jobs from the queue's head while they fit; then jobs that don't delay the head."""
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
        """Return the latest start of the queue's head, and the processors left then."""
        wanted, free = self.jobs[self.queue[0]].procs, self.free
        for end_s, row in sorted((end_s, row) for row, end_s in self._promised.items()):
            free += self.jobs[row].procs
            if free >= wanted:
                return max(end_s, now_s), free - wanted
        return inf, 0


def _estimate(job: SwfJob) -> float:
    """Return the user's estimate, at least the run time: no job is ended for a low estimate."""
    return max(job.requested_s, job.run_s) if job.requested_s > 0 else job.run_s
