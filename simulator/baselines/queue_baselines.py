"""Queue baselines: first come, first served; EASY backfilling.

EASY stands for Maui, the paper's baseline: estimates are the users' own, and a job that ends
earlier than estimated frees its processors at once.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

import numpy as np

from simulator.kernel.event_queue import EventKind, EventQueue
from simulator.workloads.swf import SwfJob

_ENDS = int(EventKind.VM_ENDS)
_PROCS, _RUN_S, _SUBMIT_S = attrgetter("procs"), attrgetter("run_s"), attrgetter("submit_s")
"""Take less time for many jobs than functions of Python."""


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
    largest = max(jobs, key=_PROCS, default=None)
    if largest is not None and largest.procs > procs:
        raise TooLargeError(f"job {largest.number} needs {largest.procs} of {procs} processors")


def _arrivals(jobs: Sequence[SwfJob]) -> EventQueue:
    """Return a queue with the arrivals of jobs; the rows are those of `jobs`."""
    queue = EventQueue()
    submit_s = np.fromiter(map(_SUBMIT_S, jobs), dtype=float, count=len(jobs))
    queue.prepare(EventKind.VM_ARRIVES, submit_s, np.arange(len(jobs)))
    return queue


def fcfs(jobs: Sequence[SwfJob], procs: int) -> Queued:
    """Run the jobs, in order of submission, on `procs` processors."""
    _check_sizes(jobs, procs)
    sizes, run_s = list(map(_PROCS, jobs)), list(map(_RUN_S, jobs))
    start_s, free = [inf] * len(jobs), procs
    waiting: deque[int] = deque()
    events = _arrivals(jobs)
    add = events.add
    for now_s, kind, row, _ in events.one_by_one():
        if kind == _ENDS:
            free += sizes[row]
        else:
            waiting.append(row)
        while waiting and sizes[waiting[0]] <= free:
            first = waiting.popleft()
            free -= sizes[first]
            start_s[first] = now_s
            add(_ENDS, now_s + run_s[first], first)
    return Queued(start_s, 2 * len(jobs))


def easy(jobs: Sequence[SwfJob], procs: int) -> Queued:
    """Run the jobs, in order of submission, on `procs` processors."""
    _check_sizes(jobs, procs)
    run = _EasyRun(jobs, procs)
    for now_s, kind, row, _ in run.events.one_by_one():
        if kind == _ENDS:
            run.end(row)
        else:
            run.queue.append(row)
        if run.events.next_s > now_s:
            run.start_jobs(now_s)
    return Queued(run.start_s, 2 * len(jobs))


class _EasyRun:
    """The running and waiting jobs of EASY."""

    def __init__(self, jobs: Sequence[SwfJob], procs: int) -> None:
        self.jobs = jobs
        self.free = procs
        self.queue: list[int] = []
        self.events = _arrivals(jobs)
        self.start_s = [inf] * len(jobs)
        self._promised: dict[int, float] = {}
        """By running job: its end by its user's estimate."""

    def end(self, row: int) -> None:
        """Free the processors of a job that has ended."""
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
        self.events.add(_ENDS, now_s + job.run_s, row)

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
