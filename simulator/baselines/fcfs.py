"""First come, first served on one pool of processors: nobody overtakes."""

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
