"""Endpoints that the same tests speak to: one in virtual time, one over real HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from merkatd.base.clock import Inline, OwnedExecutor, Threads
from merkatd.cluster import Create, Deploy, Migrate, Resume, Step, Stop, Suspend, Terminate
from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.embedded.model.settings import Delays, EmbeddedSettings, HostSize
from merkatd.embedded.rpc_server import serve
from merkatd.opennebula import Client, HttpTransport, OpenNebulaCloud, Transport
from merkatd.scheduler.base.ports import ReplyKind, StepReply

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from merkatd.base.clock import Clock as AnyClock
    from merkatd.scheduler.base.ports import Observation

Result = TypeVar("Result")

ADMIN = "oneadmin:secret"
SMALL = "CPU=1\nMEMORY=512\n"


class Recorder:
    """A transport that remembers which calls went through it, and how many at once."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.under_way = 0
        self.most_under_way = 0
        self.before: Callable[[str, int], None] = lambda _method, _number: None
        self.after: Callable[[str, list[Any]], list[Any]] = lambda _method, answer: answer

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """The value of a call."""
        self.calls.append((method, arguments[1:]))
        self.before(method, self.count()[method])
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            answer: list[Any] = await self._transport.call(method, *arguments)
            return self.after(method, answer)
        finally:
            self.under_way -= 1

    def count(self) -> Counter[str]:
        """How often each method was called."""
        return Counter(method for method, _ in self.calls)

    def forget(self) -> None:
        """Begin to count anew."""
        self.calls.clear()


class Drive(Protocol):
    """How coroutines are run and time passes."""

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """What the coroutine returns, or raises."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


@dataclass
class World:
    """A cloud behind a transport."""

    drive: Drive
    clock: AnyClock
    transport: Recorder
    executor: OwnedExecutor
    embedded: EmbeddedCloud
    client: Client = field(init=False)
    one: OpenNebulaCloud = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.login(ADMIN)
        self.one = self.cloud()

    def login(self, session: str, timeout_s: float = 10.0, **options: Any) -> Client:
        """A client of another user, or of other patience."""
        return Client(self.transport, session, self.clock, timeout_s=timeout_s, **options)

    def cloud(self, client: Client | None = None, page_rows: int = 1000) -> OpenNebulaCloud:
        """The adapter, as another client would have it."""
        return OpenNebulaCloud(
            client or self.client, self.clock, self.executor, page_rows=page_rows
        )

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """What the coroutine returns, or raises."""
        return self.drive.run(running)

    def wait(self, seconds: float = 5.0) -> None:
        """Let time pass; operations of the clouds here are over within five seconds."""
        self.drive.wait(seconds)

    def dispatch_after(self, seconds: float) -> None:
        """So long after a call was answered a VM begins to move, from now on."""
        settings = self.embedded.world.settings
        delays = replace(settings.delays, dispatch_s=seconds * settings.delays.factor)
        self.embedded.world.settings = replace(settings, delays=delays)

    def until(self, there: Callable[[], bool]) -> None:
        """Let time pass until it is so, however slow the machine is; 200 s at most."""
        for _ in range(200):
            if there():
                return
            self.wait(1.0)
        raise AssertionError("it did not come to that in 200 s")

    def call(self, method: str, *arguments: Any) -> Any:
        """The value of a call."""
        return self.run(self.client.call(method, *arguments))

    def observe(self) -> Observation:
        """An observation of the cloud."""
        return self.run(self.one.observe())

    def send(self, step: Step) -> StepReply:
        """The answer to a step."""
        return self.run(self.one.send(step))

    def accepted(self, step: Step) -> None:
        """Send a step that must be accepted."""
        reply = self.send(step)
        assert reply.answer is ReplyKind.ACCEPTED, reply

    def new(self, template: str = SMALL) -> int:
        """A new VM, pending."""
        return self.run(self.client.allocate(template))

    def running(self, host: int = 0, template: str = SMALL) -> int:
        """A VM that runs."""
        vm = self.new(template)
        self.accepted(deploy(vm, host))
        self.wait()
        assert self.words(vm) == "RUNNING"
        return vm

    def words(self, vm: int) -> str:
        """The state of a VM."""
        seen = self.observe()
        return seen.vm_words[int(np.searchsorted(seen.vm_id, vm))]

    def fault(self, kind: str, method: str = "one.*", **more: Any) -> None:
        """Let something go wrong."""
        self.call("embedded.fault.add", {"kind": kind, "method": method, **more})

    def mend(self) -> None:
        """Let nothing go wrong any more."""
        self.call("embedded.fault.clear")


class VirtualTime:
    """Time passes only where somebody waits for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """What the coroutine returns, or raises."""
        outcome: list[Result | Failure] = []
        ensureDeferred(running).addBoth(outcome.append)
        for _ in range(1_000):
            if outcome:
                break
            self._clock.advance(0.25)
        return _only(outcome)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._clock.advance(seconds)


class RealTime:
    """A reactor of our own; its clouds are so much faster."""

    faster = 12

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.reactor: Any = AsyncioSelectorReactor(self.loop)
        self.reactor.startRunning(installSignalHandlers=False)

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """What the coroutine returns, or raises."""
        outcome: list[Result | Failure] = []

        async def until_over() -> None:
            await ensureDeferred(running).addBoth(outcome.append).asFuture(self.loop)

        self.loop.run_until_complete(asyncio.wait_for(until_over(), 20))
        return _only(outcome)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.loop.run_until_complete(asyncio.sleep(seconds / self.faster))

    def close(self) -> None:
        """End the reactor."""
        self.reactor.stop()
        self.loop.run_forever()
        self.loop.close()


def _only(outcome: Sequence[Result | Failure]) -> Result:
    """What a coroutine returned; raises what it raised."""
    assert outcome, "the coroutine is not over"
    (value,) = outcome
    if isinstance(value, Failure):
        value.raiseException()
    return value


def founded(clock: Any, hosts: int, settings: EmbeddedSettings) -> EmbeddedCloud:
    """A cloud with so many hosts."""
    cloud = EmbeddedCloud(clock, np.random.default_rng(7), settings, HostSize())
    cloud.found("secret")
    cloud.add_hosts(hosts)
    return cloud


def in_memory(hosts: int = 3, settings: EmbeddedSettings | None = None) -> World:
    """A world in virtual time."""
    clock = Clock()
    clock.advance(1_000.0)  # oned writes 0 for a time that never was
    cloud = founded(clock, hosts, settings or EmbeddedSettings())
    return World(VirtualTime(clock), clock, Recorder(MemoryTransport(cloud)), Inline(), cloud)


def over_http(time: RealTime, hosts: int = 3) -> Iterator[World]:
    """A world behind a socket."""
    delays = Delays(factor=1 / time.faster)
    cloud = founded(time.reactor, hosts, EmbeddedSettings(delays=delays, monitor_interval_s=0))
    server = serve(cloud, time.reactor)
    threads = Threads(time.reactor, 2)
    http = HttpTransport(time.reactor, server.endpoint, threads)
    yield World(time, time.reactor, Recorder(http), threads, cloud)
    time.run(http.close())
    time.run(server.stop())
    cloud.close()
    threads.stop()


def create(key: str, template: str = SMALL, owner: int = 0) -> Create:
    """The step."""
    return Create(period=1, reason="", key=key, template=template, owner=owner)


def deploy(vm: int, host: int) -> Deploy:
    """The step."""
    return Deploy(period=1, reason="", vm=vm, host=host)


def migrate(vm: int, source: int, host: int) -> Migrate:
    """The step."""
    return Migrate(period=1, reason="", vm=vm, source=source, host=host)


def simple(kind: type[Suspend | Resume | Stop | Terminate], vm: int) -> Step:
    """A step that needs no more than its VM."""
    return kind(period=1, reason="", vm=vm)
