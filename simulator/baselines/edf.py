"""Earliest deadline first: preemption by suspension, backfilling, no hopeless applications.

At every arrival and end, the scheduler goes through the applications by deadline. It starts an
application that fits, or that fits after running applications with later deadlines are suspended.
It skips an application that does not fit, and later ones take the rest (backfilling). It suspends
only as many as needed, the latest deadline first. Their processors are free at once, as in the
market, and memory is never a limit. Only the suspended application waits until it is on disk. An
application that can't meet its deadline, even alone, is dropped at once.

A real scheduler decides in periods: some time after an event, and not too soon after the last one.
And a suspended application holds its processors until it is on disk. Until then they are kept for
the application that needs them.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf

import numpy as np

from simulator.baselines.queue_baselines import TooLargeError
from simulator.kernel.event_queue import EventKind, EventQueue
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.job_applications import Application, ApplicationOutcome


class _JobState(Enum):
    WAITING = auto()
    RUNNING = auto()
    """Boots, resumes, or works."""
    SUSPENDING = auto()
    SUSPENDED = auto()
    OVER = auto()


@dataclass(slots=True)
class _JobRun:
    application: Application
    left_s: float
    state: _JobState = _JobState.WAITING
    works_from_s: float = inf
    """Time at which the boot or resume ends, while the application runs."""
    end_s: float = inf
    turn: int = 0
    """Number of the present turn; events of earlier turns are void."""

    def left_at(self, now_s: float) -> float:
        if self.state is not _JobState.RUNNING:
            return self.left_s
        return self.left_s - max(now_s - self.works_from_s, 0.0)


@dataclass(frozen=True, slots=True)
class EdfRun:
    """The outcomes and costs of a run."""

    outcomes: tuple[ApplicationOutcome, ...]
    suspensions: int
    """Number of suspended applications."""
    vm_suspensions: int
    """Number of suspended VMs."""
    events: int


def edf(
    applications: Sequence[Application],
    procs: int,
    costs: OperationCosts,
    delay_s: float = 0.0,
    least_interval_s: float = 0.0,
    *,
    held: bool = False,
) -> EdfRun:
    """Run the applications, in order of submission, on `procs` processors.

    A period begins `delay_s` after an event, and at least `least_interval_s` after the last one.
    If processors are `held`, those of a suspended application are free once it is on disk.
    """
    for application in applications:
        if application.tasks > procs:
            raise TooLargeError(
                f"job {application.number} needs {application.tasks} of {procs} processors"
            )
    run = _EdfRun(
        [_JobRun(application, application.run_s) for application in applications],
        procs,
        costs,
        delay_s,
        least_interval_s,
        held,
    )
    return run.to_the_end()


@dataclass(slots=True)
class _EdfRun:
    jobs: list[_JobRun]
    free: int
    costs: OperationCosts
    delay_s: float
    least_interval_s: float
    held: bool
    now_s: float = 0.0
    events: EventQueue = field(default_factory=EventQueue)
    """The rows are those of `jobs`."""
    live: list[int] = field(default_factory=list)
    """Rows of live applications, by deadline."""
    suspensions: int = 0
    vm_suspensions: int = 0

    def to_the_end(self) -> EdfRun:
        submit_s = np.array([job.application.submit_s for job in self.jobs], dtype=float)
        self.events.prepare(EventKind.VM_ARRIVES, submit_s, np.arange(len(self.jobs)))
        seen, last_s, due_s = 0, -inf, inf
        while self.events or due_s < inf:
            event_s = self.events.next_s
            self.now_s = min(event_s, due_s)
            if due_s < event_s:
                self._drop()
                self._choose()
                last_s, due_s = due_s, inf
                continue
            event = self.events.take_one()
            if self.jobs[event.row].turn == event.turn:
                self._happen(event.row)
                seen += 1
                first_s = max(event_s + self.delay_s, last_s + self.least_interval_s)
                due_s = min(due_s, first_s)
        outcomes = tuple(self._outcome(job) for job in self.jobs)
        return EdfRun(outcomes, self.suspensions, self.vm_suspensions, seen)

    def _happen(self, row: int) -> None:
        """Handle the application's event: it arrives, its work is done, or it is on disk."""
        job = self.jobs[row]
        if job.state is _JobState.WAITING:
            insort(self.live, row, key=lambda at: (self.jobs[at].application.due_s, at))
        elif job.state is _JobState.RUNNING:
            job.state, job.left_s, job.end_s = _JobState.OVER, 0.0, self.now_s
            self.free += job.application.tasks
            self.live.remove(row)
        elif job.state is _JobState.SUSPENDING:
            job.state = _JobState.SUSPENDED
            if self.held:
                self.free += job.application.tasks

    def _ready_s(self, job: _JobRun) -> float:
        """Return the time until the application works, if it starts now."""
        if job.state is _JobState.WAITING:
            return self.costs.boot_s
        return self.costs.resume_s(job.application.memory_mib)

    def _drop(self) -> None:
        for row in list(self.live):
            job = self.jobs[row]
            if job.state not in {_JobState.WAITING, _JobState.SUSPENDED}:
                continue
            if self.now_s + self._ready_s(job) + job.left_s > job.application.due_s:
                job.state = _JobState.OVER
                self.live.remove(row)

    def _choose(self) -> None:
        """Start applications that fit, by deadline; suspend later ones if that makes room.

        For an application that waits for processors that others still hold, `coming` ones are kept,
        and as many free ones as it lacks beside them.
        """
        coming, kept = 0, 0
        if self.held:
            coming = sum(
                self.jobs[row].application.tasks
                for row in self.live
                if self.jobs[row].state is _JobState.SUSPENDING
            )
        for row in list(self.live):
            job = self.jobs[row]
            if job.state not in {_JobState.WAITING, _JobState.SUSPENDED}:
                continue
            tasks, free = job.application.tasks, self.free - kept
            if tasks > free + coming:
                for other in self._in_the_way(row, tasks - free - coming):
                    self._suspend(other)
                    if self.held:
                        coming += self.jobs[other].application.tasks
                free = self.free - kept
            if tasks <= free:
                self._start(row)
            elif tasks <= free + coming:
                taken = min(coming, tasks)
                coming -= taken
                kept += tasks - taken

    def _in_the_way(self, row: int, lacking: int) -> list[int]:
        """Return as many later applications as must be suspended, the latest first; else none."""
        job, victims = self.jobs[row], list[int]()
        spare_s = job.application.due_s - self.now_s - self._ready_s(job) - job.left_s
        for other in reversed(self.live):
            if lacking <= 0 or other == row:
                break
            if self.jobs[other].state is _JobState.RUNNING and self._leaves_s(other) <= spare_s:
                victims.append(other)
                lacking -= self.jobs[other].application.tasks
        return victims if lacking <= 0 else []

    def _leaves_s(self, row: int) -> float:
        """Return the time until a running application has left its processors."""
        return self.costs.suspend_s(self.jobs[row].application.memory_mib) if self.held else 0.0

    def _start(self, row: int) -> None:
        job = self.jobs[row]
        job.works_from_s = self.now_s + self._ready_s(job)
        job.state = _JobState.RUNNING
        job.turn += 1
        self.free -= job.application.tasks
        self.events.add(EventKind.VM_ENDS, job.works_from_s + job.left_s, row, job.turn)

    def _suspend(self, row: int) -> None:
        job = self.jobs[row]
        job.left_s = job.left_at(self.now_s)
        job.state = _JobState.SUSPENDING
        job.turn += 1
        if not self.held:
            self.free += job.application.tasks
        self.suspensions += 1
        self.vm_suspensions += job.application.tasks
        on_disk_s = self.now_s + self.costs.suspend_s(job.application.memory_mib)
        self.events.add(EventKind.OPERATION_ENDS, on_disk_s, row, job.turn)

    def _outcome(self, job: _JobRun) -> ApplicationOutcome:
        return ApplicationOutcome(
            job.application, job.end_s, 1.0 - job.left_s / job.application.run_s
        )
