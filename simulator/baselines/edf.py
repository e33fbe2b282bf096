"""Earliest deadline first: preemptive by suspension, with backfilling, dropping the hopeless.

At every arrival and end, applications are looked at by their deadlines. Who fits, or would fit
once running ones with later deadlines are suspended, runs; who does not is passed over, and
those behind it take what is left (backfilling). Of the later ones no more are suspended than
room is needed for, the latest first. Their processors are free at once, as a market's are, and
memory is never in the way; only they themselves have to wait until they are on disk.
Who can no longer make its deadline, even if it ran alone from now on, is dropped at once.
"""

import heapq
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf

from simulator.baselines.queue_baselines import TooLargeError
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.job_applications import Application, ApplicationOutcome


class _JobState(Enum):
    WAITING = auto()
    RUNNING = auto()
    """Boots, is resumed, or works."""
    SUSPENDING = auto()
    SUSPENDED = auto()
    OVER = auto()


@dataclass(slots=True)
class _One:
    application: Application
    left_s: float
    state: _JobState = _JobState.WAITING
    works_from_s: float = inf
    """While it runs: when it has booted or been resumed."""
    end_s: float = inf
    turn: int = 0
    """Events of earlier turns are void."""

    def left_at(self, now_s: float) -> float:
        if self.state is not _JobState.RUNNING:
            return self.left_s
        return self.left_s - max(now_s - self.works_from_s, 0.0)


@dataclass(frozen=True, slots=True)
class EdfRun:
    """How everybody fared, and what it took."""

    outcomes: tuple[ApplicationOutcome, ...]
    suspensions: int
    """Applications suspended,"""
    vm_suspensions: int
    """and their VMs."""
    events: int


def edf(applications: Sequence[Application], procs: int, costs: OperationCosts) -> EdfRun:
    """Run the applications, which are in order of submission, on so many processors."""
    for one in applications:
        if one.tasks > procs:
            raise TooLargeError(f"job {one.number} wants {one.tasks} of {procs} processors")
    run = _EdfRun([_One(one, one.run_s) for one in applications], procs, costs)
    return run.to_the_end()


@dataclass(slots=True)
class _EdfRun:
    everybody: list[_One]
    free: int
    costs: OperationCosts
    now_s: float = 0.0
    events: list[tuple[float, int, int]] = field(default_factory=list)
    """(time, row, turn)"""
    live: list[int] = field(default_factory=list)
    """Rows, by deadline."""
    suspensions: int = 0
    vm_suspensions: int = 0

    def to_the_end(self) -> EdfRun:
        self.events = [(one.application.submit_s, row, 0) for row, one in enumerate(self.everybody)]
        heapq.heapify(self.events)
        seen = 0
        while self.events:
            self.now_s = self.events[0][0]
            while self.events and self.events[0][0] <= self.now_s:
                _, row, turn = heapq.heappop(self.events)
                if self.everybody[row].turn == turn:
                    self._happen(row)
                    seen += 1
            self._drop()
            self._choose()
        outcomes = tuple(self._outcome(one) for one in self.everybody)
        return EdfRun(outcomes, self.suspensions, self.vm_suspensions, seen)

    def _happen(self, row: int) -> None:
        """It comes, its work is done, or it is on disk."""
        one = self.everybody[row]
        if one.state is _JobState.WAITING:
            insort(self.live, row, key=lambda at: (self.everybody[at].application.due_s, at))
        elif one.state is _JobState.RUNNING:
            one.state, one.left_s, one.end_s = _JobState.OVER, 0.0, self.now_s
            self.free += one.application.tasks
            self.live.remove(row)
        elif one.state is _JobState.SUSPENDING:
            one.state = _JobState.SUSPENDED

    def _ready_s(self, one: _One) -> float:
        """How long it would take until it works, if it started now."""
        if one.state is _JobState.WAITING:
            return self.costs.boot_s
        return self.costs.resume_s(one.application.memory_mib)

    def _drop(self) -> None:
        for row in list(self.live):
            one = self.everybody[row]
            if one.state not in {_JobState.WAITING, _JobState.SUSPENDED}:
                continue
            if self.now_s + self._ready_s(one) + one.left_s > one.application.due_s:
                one.state = _JobState.OVER
                self.live.remove(row)

    def _choose(self) -> None:
        """Start whom there is room for, by deadline; suspend later ones where that makes room."""
        for row in list(self.live):
            one = self.everybody[row]
            if one.state not in {_JobState.WAITING, _JobState.SUSPENDED}:
                continue
            if one.application.tasks > self.free:
                for other in self._in_the_way(row):
                    self._suspend(other)
            if one.application.tasks <= self.free:
                self._start(row)

    def _in_the_way(self, row: int) -> list[int]:
        """The latest of those behind it, as many as it needs; none where that is not enough."""
        lacking = self.everybody[row].application.tasks - self.free
        found: list[int] = []
        for other in reversed(self.live):
            if lacking <= 0 or other == row:
                break
            if self.everybody[other].state is _JobState.RUNNING:
                found.append(other)
                lacking -= self.everybody[other].application.tasks
        return found if lacking <= 0 else []

    def _start(self, row: int) -> None:
        one = self.everybody[row]
        one.works_from_s = self.now_s + self._ready_s(one)
        one.state = _JobState.RUNNING
        one.turn += 1
        self.free -= one.application.tasks
        heapq.heappush(self.events, (one.works_from_s + one.left_s, row, one.turn))

    def _suspend(self, row: int) -> None:
        one = self.everybody[row]
        one.left_s = one.left_at(self.now_s)
        one.state = _JobState.SUSPENDING
        one.turn += 1
        self.free += one.application.tasks
        self.suspensions += 1
        self.vm_suspensions += one.application.tasks
        on_disk_s = self.now_s + self.costs.suspend_s(one.application.memory_mib)
        heapq.heappush(self.events, (on_disk_s, row, one.turn))

    def _outcome(self, one: _One) -> ApplicationOutcome:
        return ApplicationOutcome(
            one.application, one.end_s, 1.0 - one.left_s / one.application.run_s
        )
