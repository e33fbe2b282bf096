"""Calls to one host one after another, to several side by side: queues, threads, waiting for all.

A call of libvirt can't be taken back. Where one has not returned within its limit, its thread
is given up: it counts no longer among those that serve the others, and its host gets no other
one until it returns. So a host holds at most one thread, and nobody waits for it. Hosts that
failed before are served after those that did not.

The last hosts to be served share the threads: otherwise two hosts that are left over when the
others have come to their end would take as long as all before them, with most threads idle.
Hosts before them don't share. Where there is not time enough for all, many are served in
time rather than none.

All methods are called on the reactor's thread; the work itself runs on others.
"""

import threading
from collections import deque
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from merkatd.hypervisor.libvirt.host.host_connection import CallProgress, HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import AbandonedError, AwayError

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work that others may come between wherever it yields; what it returns is its result."""
_TURN_S = 0.01
"""So long a host keeps a thread at least, where it shares it: a call or two."""
_UNFINISHED = object()


class DelayedCall(Protocol):
    """A call that is due later."""

    def active(self) -> bool:
        """Whether it is still to come."""

    def cancel(self) -> None:
        """Never make it."""


class Reactor(Protocol):
    """Time, and the way back from other threads."""

    def seconds(self) -> float:
        """Now; may be asked from any thread."""

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> DelayedCall:
        """Call it after so many seconds."""

    def callFromThread(  # noqa: N802 - Twisted's name
        self, call: Callable[..., object], /, *arguments: object
    ) -> object:
        """Call it on the reactor's thread."""


class _Job:
    """Work for one host, and who waits for it."""

    def __init__(self, host: HostConnection, steps: Steps[Any], progress: CallProgress) -> None:
        self.host = host
        self.steps = steps
        self.progress = progress
        self.answer: Deferred[Any] = Deferred()
        self.watch: DelayedCall | None = None

    def fire(self, outcome: Any) -> None:
        """Tell who waits, unless they were told already."""
        if not self.answer.called:
            self.answer.callback(outcome)


class _HostQueue:
    """One host's jobs."""

    def __init__(self) -> None:
        self.waiting: deque[_Job] = deque()
        self.running: _Job | None = None
        self.stuck = False
        self.failed = False
        """At the last try."""
        self.queued = False
        self.removed = False
        """The host was removed: its connection is closed when its last call returns."""


class Lines:
    """The lines to all hosts, and the threads they share."""

    def __init__(
        self,
        reactor: Reactor,
        start: Callable[[Callable[[], None]], None],
        threads: int,
        call_limit_s: float,
    ) -> None:
        """`start` runs something on another thread."""
        self._reactor = reactor
        self._start = start
        self._threads = self._free = threads
        self._call_limit_s = call_limit_s
        self._lines: dict[int, _HostQueue] = {}
        self.answered = 0
        """Hosts that did what they were asked, one at a time,"""
        self.failed = 0
        """and that could not be asked, or not to the end."""
        self._ready: deque[_HostQueue] = deque()
        self._doubtful: deque[_HostQueue] = deque()

    def run(
        self,
        host: HostConnection,
        work: Callable[[HostConnection], Steps[Result]],
        progress: CallProgress,
    ) -> Deferred[Result | Exception]:
        """What the work returns or raises, behind all that the host was given before.

        It comes to an AwayError where the host can't be asked.
        """
        line = self._lines.setdefault(host.place.id, _HostQueue())
        job = _Job(host, work(host), progress)
        if line.stuck:
            self.failed += 1
            job.fire(AwayError(_hangs(self._call_limit_s)))
            return job.answer
        line.waiting.append(job)
        self._queue(line)
        self._pump()
        return job.answer

    def remove(self, host: HostConnection) -> None:
        """Begin no more calls to a host that was removed, and close its connection.

        A call that hangs can't be taken back: the connection is closed when it returns.
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
        """Threads given up at present."""
        return sum(line.stuck for line in self._lines.values())

    @property
    def under_way(self) -> int:
        """Hosts that are asked at this moment."""
        return sum(line.running is not None for line in self._lines.values())

    @property
    def queued(self) -> int:
        """What waits for a host or a thread."""
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
                job.fire(AbandonedError("it was not its turn in time"))
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
        except Exception as error:  # noqa: BLE001 - who waits for the work sees to it
            outcome = error
        self._reactor.callFromThread(self._stopped, line, job, outcome)

    def _go_on(self, steps: Steps[Any]) -> Any:
        """What the steps come to, _UNFINISHED where it is another host's turn before that."""
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
            line.failed = isinstance(outcome, AwayError)
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
        """Give the thread up once a single call has taken too long."""
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
        for one in lost:
            one.fire(AwayError(_hangs(self._call_limit_s)))
        self._pump()


def _hangs(limit_s: float) -> str:
    return f"it has not answered a call for more than {limit_s:g} s"


class Workers:
    """Threads that come when there is work and wait for more; a hanging one holds up no exit."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    def start(self, work: Callable[[], None]) -> None:
        """Run it on a thread that does nothing else."""
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
        """Threads there are, at work or waiting for it."""
        return len(self._threads)

    @property
    def idle(self) -> int:
        """Threads that wait for work."""
        return self._idle

    def stop(self, patience_s: float = 1.0) -> None:
        """End the threads; those that hang end when their calls do."""
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
