"""Lines to hosts in virtual time: the order of hosts, and no needlessly idle threads."""

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
    """A call that is due at a time."""

    def __init__(self, call: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._call: Callable[..., object] | None = call
        self._arguments = arguments

    def active(self) -> bool:
        """Return whether the call is still pending."""
        return self._call is not None

    def cancel(self) -> None:
        """Cancel the call."""
        self._call = None

    def fire(self) -> None:
        """Make the call unless it was cancelled."""
        call, self._call = self._call, None
        if call is not None:
            call(*self._arguments)


class Machine:
    """A reactor and threads; started work ends after the duration of its calls."""

    def __init__(self, threads: int) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Later]] = []
        self._order = count()
        self.lines = Lines(self, self.start, threads, call_limit_s=1.0)
        self.ended_s: dict[int, float] = {}
        self.began_s: dict[int, float] = {}
        self.outcomes: dict[int, Any] = {}

    def seconds(self) -> float:
        """Return the present time of the running thread."""
        return self.now_s

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Later:
        """Schedule a call on the reactor."""
        later = Later(call, arguments)
        heapq.heappush(self._due, (self.now_s + delay, next(self._order), later))
        return later

    def callFromThread(  # noqa: N802 - Twisted's name
        self, call: Callable[..., object], /, *arguments: object
    ) -> None:
        """Schedule a call at the thread's present time."""
        self.callLater(0.0, call, *arguments)

    def start(self, work: Callable[[], None]) -> None:
        """Run work on another thread, in parallel."""
        self.callLater(0.0, work)

    def run(self) -> float:
        """Run everything that is due; return the time of the last end."""
        while self._due:
            self.now_s, _, later = heapq.heappop(self._due)
            later.fire()
        return max(self.ended_s.values())

    def ask(self, host: int, calls: int, progress: CallProgress | None = None) -> None:
        """Call a host several times, each call with its own duration."""

        def ended(outcome: Any) -> None:
            self.ended_s[host], self.outcomes[host] = self.now_s, outcome

        answer: Deferred[Any] = self.lines.run(
            _host(self, host),
            lambda connection: self._calls(connection, calls),
            progress or CallProgress(),
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


def test_remaining_hosts_share_the_threads() -> None:
    """50 hosts on 16 threads take at most 10 % longer than with freely divisible calls."""
    machine = Machine(threads=16)
    for host in range(50):
        machine.ask(host, 20)
    least_s = 50 * 20 * CALL_S / 16
    assert least_s <= machine.run() <= 1.1 * least_s
    assert set(machine.outcomes.values()) == {20}


def test_earlier_hosts_finish_before_later_ones_start() -> None:
    """Each host finishes before the next one starts, so some hosts are always served."""
    machine = Machine(threads=2)
    for host in range(9):
        machine.ask(host, 20)
    machine.run()
    for host in range(6):
        assert machine.ended_s[host] - machine.began_s[host] < 20.5 * CALL_S
        assert machine.ended_s[host] <= machine.began_s[host + 2]


def test_a_host_that_waits_for_its_next_turn_can_be_abandoned() -> None:
    """It gets no more calls, and the other hosts complete their work."""
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


def test_waiting_for_a_turn_is_not_hanging() -> None:
    """Hosts that share threads for longer than a call's limit are not abandoned."""
    machine = Machine(threads=3)
    for host in range(5):
        machine.ask(host, 400)
    assert machine.run() > 3.0
    assert set(machine.outcomes.values()) == {400}
