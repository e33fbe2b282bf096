"""The daemon: the one place that knows every concrete class, and joins them as configured."""

import fcntl
import gc
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from merkatd.api.control import listen
from merkatd.api.questions import DaemonQuestions
from merkatd.config import Config
from merkatd.config.sections import CloudKind
from merkatd.database import Database
from merkatd.database.executors import Threads
from merkatd.embedded.clock import ScaledClock
from merkatd.embedded.cloud import Cloud, HostSize
from merkatd.embedded.cloudfile import HostGroup, Plan
from merkatd.embedded.opening import clock_of, open_cloud
from merkatd.embedded.server import serve
from merkatd.embedded.store import SqliteStore
from merkatd.embedded.transport import MemoryTransport
from merkatd.hypervisor import EmbeddedHypervisors
from merkatd.opennebula import Client, HttpTransport, OpenNebulaCloud, Transport
from merkatd.placement import strategy_named
from merkatd.placement.warm import warm_up
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.world import World

_log = Logger()

_WORKERS = 2
"""Threads that take pools apart and decide: one can read while another decides."""


class StartError(Exception):
    """The daemon can't start; the message says what would have to be different."""


@dataclass
class Daemon:
    """What was started, in the order in which it was; it is stopped the other way round."""

    scheduler: Scheduler
    grace_s: float
    clock: Any
    _closing: list[Callable[[], Any]] = field(default_factory=list)

    async def stop(self) -> None:
        """Finish the work in hand, then let go of everything."""
        _log.info("Ending after the work in hand")
        stopping = ensureDeferred(self.scheduler.stop())
        stopping.addTimeout(self.grace_s, self.clock)
        try:
            await stopping
        except Exception:  # noqa: BLE001 - what could not be finished is found at the next start
            _log.failure("The work in hand did not end in time")
        await _let_go(self._closing)


async def start(reactor: Any, config: Config) -> Daemon:
    """Build the daemon and begin its first period; where that fails, nothing is left open."""
    closing: list[Callable[[], Any]] = []
    try:
        return await _built(reactor, config, closing)
    except BaseException:
        await _let_go(closing)
        raise


async def _let_go(closing: Sequence[Callable[[], Any]]) -> None:
    """Close what was opened, the last one first."""
    for close in reversed(closing):
        result = close()
        if isinstance(result, Deferred):
            await result


async def _built(reactor: Any, config: Config, closing: list[Callable[[], Any]]) -> Daemon:
    config.state_directory.mkdir(parents=True, exist_ok=True)
    closing.append(_taken(config.state_directory))
    workers = Threads(reactor, _WORKERS, name="workers")
    closing.append(workers.stop)
    client, clock = _client(reactor, config, workers, closing)
    rng = np.random.default_rng()
    database = await Database.open(config.database_url, reactor, rng, config.database.pool_size)
    closing.append(lambda: ensureDeferred(database.close()))
    world = World(
        cloud=OpenNebulaCloud(client, clock, workers),
        hypervisors=EmbeddedHypervisors(client),
        database=database,
        clock=clock,
        executor=workers,
        rng=rng,
        now=clock.seconds,
        rhythm=config.period,
        markets=config.priced_markets(),
        strategies=config.strategies,
        limits=config.limits,
        money=config.money,
    )
    for market in world.markets:
        await workers.run(partial(warm_up, strategy_named(market.strategy)))
    scheduler = Scheduler(world)
    port: Any = listen(reactor, config.control_socket, DaemonQuestions(scheduler))
    closing.append(port.stopListening)
    # What was loaded stays: looking through it for garbage would hold the reactor.
    gc.freeze()
    scheduler.start()
    return Daemon(scheduler, config.period.grace_s, reactor, closing)


def _taken(directory: Path) -> Callable[[], None]:
    """Take the state directory for this daemon alone; what is returned gives it back.

    The system gives it back too, however the process ends.
    """
    lock = (directory / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StartError(f"{directory}: another daemon has this state directory") from None
    return lock.close


def _client(
    reactor: Any, config: Config, workers: Threads, closing: list[Callable[[], Any]]
) -> tuple[Client, ScaledClock]:
    """The way to the cloud, and the time that passes there."""
    if config.cloud.kind is CloudKind.OPENNEBULA:
        now = time.time()
        clock = ScaledClock(reactor, time.time, 1.0, now, now)
        transport = HttpTransport(reactor, config.cloud.endpoint, workers)
        closing.append(lambda: ensureDeferred(transport.close()))
        return _speaking(transport, _session(config.auth_file), clock, config), clock
    store = SqliteStore(config.state_directory / "cloud.db")
    clock = clock_of(config.cloud.speed, store, reactor)
    auth = config.state_directory / "one_auth"
    if not auth.exists():
        _write_secret(auth, f"oneadmin:{secrets.token_urlsafe(16)}\n")
    session = _session(auth)
    size = HostSize(config.cloud.host_cores * 100, config.cloud.host_memory_mib)
    plan = Plan(hosts=(HostGroup(config.cloud.hosts, size),))
    cloud: Cloud = open_cloud(clock, plan, session.partition(":")[2], config.cloud.seed, store)
    closing.append(cloud.close)
    server = serve(cloud, reactor)
    closing.append(lambda: ensureDeferred(server.stop()))
    (config.state_directory / "one_xmlrpc").write_text(f"{server.endpoint}\n")
    _log.info(
        "The embedded cloud answers at {endpoint}, its login is in {auth}",
        endpoint=server.endpoint,
        auth=str(auth),
    )
    return _speaking(MemoryTransport(cloud), session, clock, config), clock


def _speaking(transport: Transport, session: str, clock: ScaledClock, config: Config) -> Client:
    return Client(transport, session, clock, timeout_s=config.cloud.call_limit_s)


def _session(path: Path) -> str:
    """The login in a file as OpenNebula's tools keep it: user:password."""
    try:
        session = path.read_text().strip()
    except OSError as error:
        raise StartError(f"{path}: the login can't be read: {error.strerror}") from None
    if ":" not in session:
        raise StartError(f"{path}: user:password is right")
    return session


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
