"""The supervisor of platforms' processes: restarts, and a limit of simultaneous starts.

Each process needs 0.2 s of CPU before it sends its first message. If all started together, they
would leave the daemon no CPU for the answers that they wait for.

Processes have names, which the caller chooses. If a warden dies, the supervisor finds its remaining
processes by a mark in their environment, and kills them before it starts anything again.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger

from merkatd.base.backoff import Backoff
from merkatd.platforms.processes import program
from merkatd.platforms.processes.program import Program
from merkatd.platforms.processes.warden_link import WardenLink
from merkatd.protocol.controller_kinds import HOME

AT_ONCE = 8
"""The most started processes that have not sent their first message yet."""
LIMIT_S = 5.0
"""The time after which a silent process no longer delays the start of others."""


class StartPacer:
    """A queue of starts that limits how many processes start at the same time."""

    def __init__(self, clock: Any, begin: Callable[[str], None], most: int = AT_ONCE) -> None:
        self._clock = clock
        self._begin = begin
        self._most = most
        self._waiting: deque[str] = deque()
        self._coming: dict[str, Any] = {}

    def ask(self, name: str) -> None:
        """Add a process to the queue; it starts at once if the limit allows."""
        self._waiting.append(name)
        self._go_on()

    def settled(self, name: str) -> None:
        """Free the place of a process that has started, failed or been cancelled."""
        if name in self._waiting:
            self._waiting.remove(name)
        call = self._coming.pop(name, None)
        if call is not None and call.active():
            call.cancel()
        self._go_on()

    def close(self) -> None:
        """Cancel all waiting starts."""
        self._waiting.clear()
        for name in list(self._coming):
            self.settled(name)

    def _go_on(self) -> None:
        while self._waiting and len(self._coming) < self._most:
            name = self._waiting.popleft()
            self._coming[name] = self._clock.callLater(LIMIT_S, self.settled, name)
            self._begin(name)


_log = Logger()
_HANGING_S = 10.0
"""The time after the grace in which a warden must have ended a process; otherwise it hangs."""
_LOOKS, _LOOK_S = 200, 0.01


@dataclass(frozen=True, slots=True)
class UnexpectedEnd:
    """The unexpected end of a process."""

    name: str
    why: str
    wait_s: float | None
    """The time until its restart; None if it is given up."""


@dataclass
class _KeptProcess:
    """A process that must run, or is still ending."""

    name: str
    program: Program | None
    """The program to run; None if the process must end."""
    failures: int = 0
    """Its failed starts in a row."""
    running: bool = False
    pid: int | None = None
    started_s: float = 0.0
    call: Any = None
    """The scheduled call that restarts it."""
    gone: list[Deferred[None]] = field(default_factory=list)


class Supervisor:
    """Starts, restarts and stops all processes of a daemon."""

    def __init__(
        self,
        home: Path,
        clock: Any,
        rng: np.random.Generator,
        backoff: Backoff,
        ended: Callable[[UnexpectedEnd], None],
        excused: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`ended` is called after each unexpected end.

        `excused` returns whether the daemon is the reason why a process fails: such a process is
        not given up.
        """
        self._home = str(home.resolve())
        self._clock = clock
        self._rng = rng
        self._backoff = backoff
        self._ended = ended
        self._excused = excused
        self._kept: dict[str, _KeptProcess] = {}
        self._warden: WardenLink | None = None
        self._pace = StartPacer(clock, self._begin)
        self._sweep()

    @property
    def pids(self) -> Mapping[str, int]:
        """Return the ids of the running processes, by name."""
        return {
            name: process.pid
            for name, process in self._kept.items()
            if process.running and process.pid is not None
        }

    @property
    def since(self) -> Mapping[str, float]:
        """Return the start time of each running process, by name."""
        return {name: process.started_s for name, process in self._kept.items() if process.running}

    @property
    def warden_pid(self) -> int | None:
        """Return the id of the warden, the parent of all processes; None without a warden."""
        return self._warden.pid if self._warden else None

    def start(self, name: str, program: Program) -> None:
        """Keep a program running until it is stopped; a process of this name is kept."""
        kept = self._kept.get(name)
        if kept is None:
            kept = self._kept[name] = _KeptProcess(name, program)
            self._launch(kept)
        elif kept.program is None:  # the old process is ending: the new program follows it
            kept.program, kept.failures = program, 0

    def stop(self, names: Sequence[str], grace_s: float) -> Deferred[None]:
        """Stop processes, by force after the grace; the Deferred fires when they are gone."""
        waiting = []
        for name in names:
            kept = self._kept.get(name)
            if kept is None:
                continue
            kept.program = None
            if not kept.running:
                self._forget(kept)
                continue
            gone: Deferred[None] = Deferred()
            kept.gone.append(gone)
            waiting.append(gone)
            self._order_end(name, grace_s)
        if not waiting:
            none: Deferred[None] = Deferred()
            none.callback(None)
            return none
        hanging = self._clock.callLater(grace_s + _HANGING_S, self._hangs)

        def over(_: Any) -> None:
            if hanging.active():
                hanging.cancel()

        return DeferredList(waiting).addCallback(over)

    def again(self, name: str, grace_s: float) -> None:
        """Stop a process that hangs; it is restarted like any process that ended."""
        if name in self._kept and self._kept[name].running:
            self._order_end(name, grace_s)

    def heard(self, name: str) -> None:
        """Note the first message of a process, so that others may start."""
        self._pace.settled(name)

    def close(self) -> None:
        """Kill all processes, and wait for their end."""
        self._pace.close()
        for kept in list(self._kept.values()):
            kept.program = None
            kept.running = False
            self._forget(kept)
        if self._warden is not None:
            self._warden.end()
            self._warden = None
        self._sweep()

    def _order_end(self, name: str, grace_s: float) -> None:
        if self._warden is not None:
            self._warden.order(stop=name, grace_s=grace_s)

    def _launch(self, kept: _KeptProcess) -> None:
        kept.call = None
        self._pace.ask(kept.name)

    def _begin(self, name: str) -> None:
        kept = self._kept.get(name)
        program = None if kept is None else kept.program
        if kept is None or program is None:
            return
        if self._warden is None:
            try:
                self._warden = WardenLink(self._home, self._told, self._lost)
            except OSError as error:
                # No descriptor or process is left. Deferred, as `_not_begun` starts the next one.
                why = f"could not be started: {error.strerror}"
                kept.call = self._clock.callLater(0, self._not_begun, kept, why)
                return
        kept.running, kept.started_s = True, self._clock.seconds()
        order = asdict(program) | {"environment": {**program.environment, HOME: self._home}}
        self._warden.order(start=kept.name, **order)

    def _not_begun(self, kept: _KeptProcess, why: str) -> None:
        kept.call, kept.started_s = None, self._clock.seconds()
        self._parted(kept, why, began=False)

    def _told(self, message: Mapping[str, Any]) -> None:
        name = message.get("started") or message.get("ended") or message.get("failed")
        kept = self._kept.get(str(name))
        if kept is None:
            return
        if "started" in message:
            kept.pid = message["pid"]
        elif "ended" in message:
            self._parted(kept, _words(message["code"]))
        else:
            self._parted(kept, f"could not be started: {message['why']}", began=False)

    def _lost(self) -> None:
        """Kill and restart all processes after the warden's end, as they are unsupervised now."""
        _log.error("The warden of the controllers ended; restarting all its processes")
        self._warden = None
        self._sweep()
        # `_parted` may start waiting processes, which must not be in this list.
        for kept in [process for process in self._kept.values() if process.running]:
            self._parted(kept, "ended with its warden")

    def _hangs(self) -> None:
        if self._warden is not None:
            _log.error("The warden of the controllers does not respond; killing it")
            self._warden.kill()

    def _parted(self, kept: _KeptProcess, why: str, *, began: bool = True) -> None:
        self._pace.settled(kept.name)
        lived_s = self._clock.seconds() - kept.started_s
        kept.running, kept.pid = False, None
        waiting, kept.gone = kept.gone, []
        if kept.program is None:
            self._forget(kept)
        elif waiting:  # a new program was to follow
            self._launch(kept)
        else:
            self._later(kept, why, lived_s, excused=not began or self._excused(kept.name))
        for waiter in waiting:
            waiter.callback(None)

    def _later(self, kept: _KeptProcess, why: str, lived_s: float, *, excused: bool) -> None:
        """Restart a process after a wait, or give it up.

        A process that the system could not start, or that fails because of the daemon (`excused`),
        is not given up: a disk that is full for an hour must not end all platforms.
        """
        kept.failures = self._backoff.failures_after(kept.failures, lived_s)
        wait_s: float | None = self._backoff.wait_s(kept.failures, float(self._rng.random()))
        if self._backoff.is_over(kept.failures):
            given_up = kept.program is None or kept.program.given_up
            goes_on = excused or not given_up
            wait_s = self._backoff.longest_s if goes_on else None
        _log.warn(
            "Process {name} {why}; {wait}",
            name=kept.name,
            why=why,
            wait="giving up" if wait_s is None else f"restarting it in {wait_s:.1f} s",
        )
        if wait_s is None:
            del self._kept[kept.name]
        else:
            kept.call = self._clock.callLater(wait_s, self._launch, kept)
        self._ended(UnexpectedEnd(kept.name, why, wait_s))

    def _forget(self, kept: _KeptProcess) -> None:
        if kept.call is not None:
            kept.call.cancel()
            kept.call = None
        self._kept.pop(kept.name, None)
        self._pace.settled(kept.name)

    def _sweep(self) -> None:
        """Kill all processes that an earlier warden or daemon left."""
        for _ in range(_LOOKS):
            pids = program.marked(self._home)
            if not pids:
                return
            program.kill(pids)
            # The kernel needs some time to end them.
            time.sleep(_LOOK_S)
        _log.error("Could not kill the processes {pids}", pids=sorted(pids))


def _words(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
