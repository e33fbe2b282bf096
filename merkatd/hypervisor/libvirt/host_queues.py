"""Queues of calls: one call at a time to each host, calls to several hosts side by side.

A call of libvirt can't be cancelled. If a call does not return within its limit, its thread is
given up: it no longer counts among the threads that serve hosts, and its host gets no other
thread until the call returns. So a hanging host occupies at most one thread and delays no other
host. Hosts whose last call failed are served after the others.

The last hosts to be served share the threads. Otherwise two hosts left over at the end would take
as long as all hosts before them, with most threads idle. Earlier hosts don't share: if the time is
too short for all, many hosts finish in time rather than none.

All methods are called on the reactor's thread; the work itself runs on others.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from merkatd.base.clock import DelayedCall, ThreadClock
from merkatd.hypervisor.libvirt.host.host_connection import CallProgress, HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import AbandonedError, HostAwayError

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work in steps: at each yield another host may get the thread; it returns the result."""
_TURN_S = 0.01
"""The shortest time for which a host keeps a shared thread: a call or two."""
_UNFINISHED = object()


class _Job:
    """Work for one host, and the Deferred of its outcome."""

    def __init__(self, host: HostConnection, steps: Steps[Any], progress: CallProgress) -> None:
        self.host = host
        self.steps = steps
        self.progress = progress
        self.answer: Deferred[Any] = Deferred()
        self.watch: DelayedCall | None = None

    def fire(self, outcome: Any) -> None:
        """Fire the Deferred with the outcome, unless it has fired already."""
        if not self.answer.called:
            self.answer.callback(outcome)


class _HostQueue:
    """The jobs of one host."""

    def __init__(self) -> None:
        self.waiting: deque[_Job] = deque()
        self.running: _Job | None = None
        self.stuck = False
        self.failed = False
        """Whether the last job failed because the host was away."""
        self.queued = False
        self.removed = False
        """Whether the host was removed: its connection is closed when its last call returns."""


class Lines:
    """The queues of all hosts, and the threads that they share."""

    def __init__(
        self,
        reactor: ThreadClock,
        start: Callable[[Callable[[], None]], None],
        threads: int,
        call_limit_s: float,
    ) -> None:
        """`start` runs a function on another thread."""
        self._reactor = reactor
        self._start = start
        self._threads = self._free = threads
        self._call_limit_s = call_limit_s
        self._lines: dict[int, _HostQueue] = {}
        self.answered = 0
        """The number of jobs that hosts have completed."""
        self.failed = 0
        """The number of jobs that failed or did not complete."""
        self._ready: deque[_HostQueue] = deque()
        self._doubtful: deque[_HostQueue] = deque()

    def run(
        self,
        host: HostConnection,
        work: Callable[[HostConnection], Steps[Result]],
        progress: CallProgress,
    ) -> Deferred[Result | Exception]:
        """Queue work for a host; the Deferred fires with its result or its exception.

        The outcome is an HostAwayError if the host can't be called.
        """
        line = self._lines.setdefault(host.place.id, _HostQueue())
        job = _Job(host, work(host), progress)
        if line.stuck:
            self.failed += 1
            job.fire(HostAwayError(_hangs(self._call_limit_s)))
            return job.answer
        line.waiting.append(job)
        self._queue(line)
        self._pump()
        return job.answer

    def remove(self, host: HostConnection) -> None:
        """Start no more calls to a removed host, and close its connection.

        A hanging call can't be cancelled: the connection is closed when the call returns.
        """
        line = self._lines.pop(host.place.id, None)
        if line is None:
            return
        line.removed = True
        waiting, line.waiting = list(line.waiting), deque()
        for job in waiting:
            job.steps.close()
            job.fire(AbandonedError("the host was removed"))
        if line.running is None:
            self._start(host.close)
        else:
            line.running.progress.abandon()

    @property
    def stuck(self) -> int:
        """The number of threads that are given up at present."""
        return sum(line.stuck for line in self._lines.values())

    @property
    def under_way(self) -> int:
        """The number of hosts with a call in progress."""
        return sum(line.running is not None for line in self._lines.values())

    @property
    def queued(self) -> int:
        """The number of jobs that wait for a host or a thread."""
        return sum(len(line.waiting) for line in self._lines.values())

    def _queue(self, line: _HostQueue) -> None:
        if line.waiting and line.running is None and not line.stuck and not line.queued:
            line.queued = True
            (self._doubtful if line.failed else self._ready).append(line)

    def _pump(self) -> None:
        while self._free and (self._ready or self._doubtful):
            line = (self._ready or self._doubtful).popleft()
            line.queued = False
            if line.removed:
                continue
            job = line.waiting.popleft()
            if job.progress.abandoned:
                job.steps.close()
                self.failed += 1
                job.fire(AbandonedError("its turn did not come in time"))
                self._queue(line)
                continue
            self._free -= 1
            line.running = job
            job.progress.at_s = self._reactor.seconds()
            self._watch(line, job)
            self._start(lambda line=line, job=job: self._on_thread(line, job))  # type: ignore[misc]

    def _on_thread(self, line: _HostQueue, job: _Job) -> None:
        job.host.progress = job.progress
        try:
            outcome = self._go_on(job.steps)
        except Exception as error:  # noqa: BLE001 - the caller of `run` handles it
            outcome = error
        self._reactor.callFromThread(self._stopped, line, job, outcome)

    def _go_on(self, steps: Steps[Any]) -> Any:
        """Return the steps' result, or _UNFINISHED if another host's turn comes first."""
        until_s = self._reactor.seconds() + _TURN_S
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            shared = 0 < len(self._ready) < self._threads
            if shared and self._reactor.seconds() >= until_s:
                return _UNFINISHED

    def _stopped(self, line: _HostQueue, job: _Job, outcome: Any) -> None:
        if line.stuck and line.running is job:
            line.stuck = False
        else:
            self._free += 1
        if job.watch is not None and job.watch.active():
            job.watch.cancel()
        line.running = None
        if line.removed:
            job.fire(AbandonedError("the host was removed"))
            self._start(job.host.close)
        elif outcome is _UNFINISHED:
            line.waiting.appendleft(job)
        else:
            line.failed = isinstance(outcome, HostAwayError)
            if not job.answer.called:
                self._count(outcome)
            job.fire(outcome)
        self._queue(line)
        self._pump()

    def _count(self, outcome: Any) -> None:
        if isinstance(outcome, Exception):
            self.failed += 1
        else:
            self.answered += 1

    def _watch(self, line: _HostQueue, job: _Job) -> None:
        """Give up the thread once a single call has taken too long."""
        if line.running is not job or line.stuck:
            return
        left_s = job.progress.at_s + self._call_limit_s - self._reactor.seconds()
        if left_s > 0:
            job.watch = self._reactor.callLater(left_s, self._watch, line, job)
            return
        line.stuck = line.failed = True
        self._free += 1
        job.progress.abandon()
        lost = [job, *line.waiting]
        line.waiting.clear()
        self.failed += len(lost)
        for call in lost:
            call.fire(HostAwayError(_hangs(self._call_limit_s)))
        self._pump()


def _hangs(limit_s: float) -> str:
    return f"it has not answered a call for more than {limit_s:g} s"


class Workers:
    """Threads that start when there is work and wait for more; a hanging one blocks no exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        """Run the work on an idle thread, or on a new one."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                name = f"{self._name}-{len(self._threads)}"
                thread = threading.Thread(target=self._turn, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._work.put(work)

    @property
    def count(self) -> int:
        """The number of threads, busy or idle."""
        return len(self._threads)

    @property
    def idle(self) -> int:
        """The number of threads that wait for work."""
        return self._idle

    def stop(self, patience_s: float = 1.0) -> None:
        """Stop the threads; a hanging thread ends when its call returns."""
        for _ in self._threads:
            self._work.put(None)
        if self._idle == len(self._threads):
            for thread in self._threads:
                thread.join(patience_s)

    def _turn(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            with self._lock:
                self._idle += 1
