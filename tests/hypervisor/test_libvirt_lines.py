"""Lines to hosts in virtual time: whose turn it is, and that threads are never idle in vain."""

import heapq
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from twisted.internet.defer import Deferred

from merkatd.hypervisor.libvirt import HostAddress, LibvirtSettings
from merkatd.hypervisor.libvirt.host.host_connection import CallProgress, HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import AbandonedError
from merkatd.hypervisor.libvirt.host_queues import Lines, Steps

CALL_S = 0.005


class Later:
    """Something that is due at a moment."""

    def __init__(self, call: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._call: Callable[..., object] | None = call
        self._arguments = arguments

    def active(self) -> bool:
        """Whether it is still to come."""
        return self._call is not None

    def cancel(self) -> None:
        """Never make it."""
        self._call = None

    def fire(self) -> None:
        """Now, unless it was cancelled."""
        call, self._call = self._call, None
        if call is not None:
            call(*self._arguments)


class Machine:
    """A reactor and threads: work that is started now ends when its calls have had their time."""

    def __init__(self, threads: int) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Later]] = []
        self._order = count()
        self.lines = Lines(self, self.start, threads, call_limit_s=1.0)
        self.ended_s: dict[int, float] = {}
        self.began_s: dict[int, float] = {}
        self.outcomes: dict[int, Any] = {}

    def seconds(self) -> float:
        """Now, of whoever is running."""
        return self.now_s

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Later:
        """On the reactor."""
        later = Later(call, arguments)
        heapq.heappush(self._due, (self.now_s + delay, next(self._order), later))
        return later

    def callFromThread(  # noqa: N802 - Twisted's name
        self, call: Callable[..., object], /, *arguments: object
    ) -> None:
        """When the thread has come so far."""
        self.callLater(0.0, call, *arguments)

    def start(self, work: Callable[[], None]) -> None:
        """On another thread, beside what else runs."""
        self.callLater(0.0, work)

    def run(self) -> float:
        """All that is due; when the last of it ended."""
        while self._due:
            self.now_s, _, later = heapq.heappop(self._due)
            later.fire()
        return max(self.ended_s.values())

    def ask(self, host: int, calls: int, progress: CallProgress | None = None) -> None:
        """Let a host be called so often, each call with its own time."""

        def ended(outcome: Any) -> None:
            self.ended_s[host], self.outcomes[host] = self.now_s, outcome

        answer: Deferred[Any] = self.lines.run(
            _host(self, host), lambda one: self._calls(one, calls), progress or CallProgress()
        )
        answer.addCallback(ended)

    def _calls(self, host: HostConnection, calls: int) -> Steps[int]:
        self.began_s[host.place.id] = self.now_s
        for _ in range(calls):
            host.progress.begin(self.now_s)
            self.now_s += CALL_S
            yield
        return calls


def _host(machine: Machine, number: int) -> HostConnection:
    return HostConnection(
        place=HostAddress(number, f"host{number}"),
        address="",
        settings=LibvirtSettings(),
        seconds=machine.seconds,
        chance=random.Random(0),  # noqa: S311 - nothing here is secret
    )


def test_hosts_that_are_left_over_share_the_threads() -> None:
    """50 hosts on 16 threads take hardly longer than if their calls could be divided freely."""
    machine = Machine(threads=16)
    for host in range(50):
        machine.ask(host, 20)
    least_s = 50 * 20 * CALL_S / 16
    assert least_s <= machine.run() <= 1.1 * least_s
    assert set(machine.outcomes.values()) == {20}


def test_hosts_before_them_do_not() -> None:
    """Each has come to its end before the next one begins: some are served whatever happens."""
    machine = Machine(threads=2)
    for host in range(9):
        machine.ask(host, 20)
    machine.run()
    for host in range(6):
        assert machine.ended_s[host] - machine.began_s[host] < 20.5 * CALL_S
        assert machine.ended_s[host] <= machine.began_s[host + 2]


def test_a_host_whose_turn_has_not_come_again_can_be_given_up() -> None:
    """It ends where it was, and is not called any more; the others do all they have to."""
    machine = Machine(threads=2)
    progress = CallProgress()
    for host in (0, 1):
        machine.ask(host, 20)
    machine.ask(2, 20, progress)
    machine.callLater(4 * CALL_S, progress.abandon)
    machine.run()
    assert isinstance(machine.outcomes[2], AbandonedError)
    assert machine.ended_s[2] < 20 * CALL_S
    assert (machine.outcomes[0], machine.outcomes[1]) == (20, 20)


def test_work_that_waits_for_its_turn_does_not_hang() -> None:
    """Hosts that share threads for longer than a call may take are given up for none of it."""
    machine = Machine(threads=3)
    for host in range(5):
        machine.ask(host, 400)
    assert machine.run() > 3.0
    assert set(machine.outcomes.values()) == {400}
