"""Endpoints for the same tests: one in virtual time, one over real HTTP."""

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
    """A transport that records its calls, and how many ran at once."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.under_way = 0
        self.most_under_way = 0
        self.before: Callable[[str, int], None] = lambda _method, _number: None
        self.after: Callable[[str, list[Any]], list[Any]] = lambda _method, answer: answer

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """Return the value of a call."""
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
        """Return the number of calls of each method."""
        return Counter(method for method, _ in self.calls)

    def forget(self) -> None:
        """Start counting again."""
        self.calls.clear()


class Drive(Protocol):
    """Runs coroutines and lets time pass."""

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """Return or raise the result of the coroutine."""

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
    adapter: OpenNebulaCloud = field(init=False)

    def __post_init__(self) -> None:
        self.client = self.login(ADMIN)
        self.adapter = self.cloud()

    def login(self, session: str, timeout_s: float = 10.0, **options: Any) -> Client:
        """Return a client of another user or with another timeout."""
        return Client(self.transport, session, self.clock, timeout_s=timeout_s, **options)

    def cloud(self, client: Client | None = None, page_rows: int = 1000) -> OpenNebulaCloud:
        """Return an adapter with another client."""
        return OpenNebulaCloud(
            client or self.client, self.clock, self.executor, page_rows=page_rows
        )

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """Return or raise the result of the coroutine."""
        return self.drive.run(running)

    def wait(self, seconds: float = 5.0) -> None:
        """Let time pass; operations of these clouds take at most five seconds."""
        self.drive.wait(seconds)

    def dispatch_after(self, seconds: float) -> None:
        """Set the time from an answer until a VM starts to move."""
        settings = self.embedded.world.settings
        delays = replace(settings.delays, dispatch_s=seconds * settings.delays.factor)
        self.embedded.world.settings = replace(settings, delays=delays)

    def until(self, there: Callable[[], bool]) -> None:
        """Let time pass until the condition holds, at most 200 s."""
        for _ in range(200):
            if there():
                return
            self.wait(1.0)
        raise AssertionError("it did not come to that in 200 s")

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the value of a call."""
        return self.run(self.client.call(method, *arguments))

    def observe(self) -> Observation:
        """Return an observation of the cloud."""
        return self.run(self.adapter.observe())

    def send(self, step: Step) -> StepReply:
        """Return the answer to a step."""
        return self.run(self.adapter.send(step))

    def accepted(self, step: Step) -> None:
        """Send a step that must be accepted."""
        reply = self.send(step)
        assert reply.answer is ReplyKind.ACCEPTED, reply

    def new(self, template: str = SMALL) -> int:
        """Create a pending VM."""
        return self.run(self.client.allocate(template))

    def running(self, host: int = 0, template: str = SMALL) -> int:
        """Create a running VM."""
        vm = self.new(template)
        self.accepted(deploy(vm, host))
        self.wait()
        assert self.words(vm) == "RUNNING"
        return vm

    def words(self, vm: int) -> str:
        """Return the name of a VM's state."""
        seen = self.observe()
        return seen.vm_words[int(np.searchsorted(seen.vm_id, vm))]

    def fault(self, kind: str, method: str = "one.*", **more: Any) -> None:
        """Inject a fault."""
        self.call("embedded.fault.add", {"kind": kind, "method": method, **more})

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.call("embedded.fault.clear")


class VirtualTime:
    """A drive whose time passes only when a coroutine waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """Return or raise the result of the coroutine."""
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
    """A reactor of the tests; its clouds run faster by this factor."""

    faster = 6

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.reactor: Any = AsyncioSelectorReactor(self.loop)
        self.reactor.startRunning(installSignalHandlers=False)

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """Return or raise the result of the coroutine."""
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
    """Return the result of a coroutine, or raise its error."""
    assert outcome, "the coroutine has not ended"
    (value,) = outcome
    if isinstance(value, Failure):
        value.raiseException()
    return value


def make_cloud(clock: Any, hosts: int, settings: EmbeddedSettings) -> EmbeddedCloud:
    """Return a cloud with hosts."""
    cloud = EmbeddedCloud(clock, np.random.default_rng(7), settings, HostSize())
    cloud.found("secret")
    cloud.add_hosts(hosts)
    return cloud


def in_memory(hosts: int = 3, settings: EmbeddedSettings | None = None) -> World:
    """Return a world in virtual time."""
    clock = Clock()
    clock.advance(1_000.0)  # oned writes 0 for an unset time
    cloud = make_cloud(clock, hosts, settings or EmbeddedSettings())
    return World(VirtualTime(clock), clock, Recorder(MemoryTransport(cloud)), Inline(), cloud)


def over_http(time: RealTime, hosts: int = 3) -> Iterator[World]:
    """Yield a world behind a socket."""
    delays = Delays(factor=1 / time.faster)
    cloud = make_cloud(time.reactor, hosts, EmbeddedSettings(delays=delays, monitor_interval_s=0))
    server = serve(cloud, time.reactor)
    threads = Threads(time.reactor, 2)
    http = HttpTransport(time.reactor, server.endpoint, threads)
    yield World(time, time.reactor, Recorder(http), threads, cloud)
    time.run(http.close())
    time.run(server.stop())
    cloud.close()
    threads.stop()


def create(key: str, template: str = SMALL, owner: int = 0) -> Create:
    """Return the step."""
    return Create(period=1, reason="", key=key, template=template, owner=owner)


def deploy(vm: int, host: int) -> Deploy:
    """Return the step."""
    return Deploy(period=1, reason="", vm=vm, host=host)


def migrate(vm: int, source: int, host: int) -> Migrate:
    """Return the step."""
    return Migrate(period=1, reason="", vm=vm, source=source, host=host)


def simple(kind: type[Suspend | Resume | Stop | Terminate], vm: int) -> Step:
    """Return a step that needs only its VM."""
    return kind(period=1, reason="", vm=vm)
