"""The daemon: the one place that knows every concrete class, and joins them as configured."""

import fcntl
import gc
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from merkatd.api.control import listen
from merkatd.api.questions import DaemonQuestions
from merkatd.api.questions.platforms import PlatformQuestions
from merkatd.api.xmlrpc.identity import Logins
from merkatd.api.xmlrpc.server import NotServedError
from merkatd.api.xmlrpc.server import serve as serve_tenants
from merkatd.api.xmlrpc.table import House
from merkatd.bus.running import PlatformProcesses
from merkatd.config import Config
from merkatd.config.sections import CloudKind, CloudMode, HypervisorKind
from merkatd.database import Database
from merkatd.database.executors import Executor, Inline, Threads
from merkatd.database.orders import Order
from merkatd.driver.answering import Driver
from merkatd.driver.serving import serve as serve_driver
from merkatd.embedded.clock import ScaledClock
from merkatd.embedded.cloud import Cloud, HostSize
from merkatd.embedded.cloudfile import HostGroup, Plan
from merkatd.embedded.opening import clock_of, open_cloud
from merkatd.embedded.server import serve
from merkatd.embedded.store import SqliteStore
from merkatd.embedded.transport import MemoryTransport
from merkatd.hypervisor import EmbeddedHypervisors
from merkatd.hypervisor.libvirt import Addresses, LibvirtHypervisors, MissingError
from merkatd.ledger import Ledger
from merkatd.opennebula import Client, HttpTransport, OpenNebulaCloud, Transport, TrustError
from merkatd.opennebula.events import Events
from merkatd.opennebula.guarded import Guarded
from merkatd.opennebula.login import Login, LoginError, login_from
from merkatd.opennebula.present import HostsNow, leads, start_again
from merkatd.placement import strategy_named
from merkatd.placement.warm import warm_up
from merkatd.platforms.manager import Manager
from merkatd.scheduler.leading import Leading, lease_s_of
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.ports import Hypervisors
from merkatd.scheduler.world import World

_log = Logger()

_LOGIN_BYTES = 1 << 20
"""More than any user's or VM's own page."""
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


async def start(reactor: Any, config: Config, *, paused: bool = False) -> Daemon:
    """Build the daemon and begin its first period; where that fails, nothing is left open.

    With `paused` it waits until it is told to resume.
    """
    closing: list[Callable[[], Any]] = []
    try:
        daemon = await _built(reactor, config, closing)
        if paused:
            await daemon.scheduler.order(Order.PAUSE, "run --paused")
    except BaseException:
        await _let_go(closing)
        raise
    daemon.scheduler.start()
    return daemon


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
    leaders: list[Leading] = []
    client, clock = _client(reactor, config, workers, closing, partial(_certain, leaders))
    rng = np.random.default_rng()
    database = await Database.open(config.database_url, reactor, rng, config.database.pool_size)
    closing.append(lambda: ensureDeferred(database.close()))
    cloud = OpenNebulaCloud(client, clock, workers)
    world = World(
        cloud=cloud,
        hypervisors=_hypervisors(reactor, config, client, closing),
        database=database,
        clock=clock,
        executor=workers,
        rng=rng,
        now=clock.seconds,
        rhythm=config.period,
        goods=config.goods,
        markets=config.priced_markets(),
        strategies=config.strategies,
        limits=config.limits,
        money=config.money,
        handing=config.cloud.mode is CloudMode.DRIVER,
        why_not_on=HostsNow(client, clock.seconds).why_not,
        retry=partial(start_again, client),
        chores=cloud.run_scheduled,
    )
    for market in world.markets:
        await workers.run(partial(warm_up, strategy_named(market.strategy)))
    leading = _leading(reactor, config, database, client)
    processes = PlatformProcesses(config.state_directory, reactor, rng, config.bus)
    manager = Manager(world, processes, rng)
    scheduler = Scheduler(replace(world, proposals=manager.proposals), leading)
    scheduler.listen(manager.told)
    closing.append(lambda: ensureDeferred(manager.close()))
    questions = DaemonQuestions(scheduler, PlatformQuestions(scheduler, manager, client.call))
    port: Any = listen(reactor, config.control_socket, questions)
    closing.append(port.stopListening)
    if config.api.enabled:
        _open_to_tenants(reactor, config, world, questions, closing)
    if leading is not None:
        leaders.append(leading)
        closing.append(lambda: ensureDeferred(leading.stop()))
        driver = serve_driver(
            reactor, config.driver_socket, config.driver.group, Driver(scheduler).answer
        )
        closing.append(driver.stopListening)
        leading.start()
    if config.cloud.events_endpoint:
        events = Events(config.cloud.events_endpoint, clock, scheduler.wake)
        closing.append(events.stop)
    # What was loaded stays: looking through it for garbage would hold the reactor.
    gc.freeze()
    return Daemon(scheduler, config.period.grace_s, reactor, closing)


def _open_to_tenants(
    reactor: Any,
    config: Config,
    world: World,
    questions: DaemonQuestions,
    closing: list[Callable[[], Any]],
) -> None:
    """Open the tenants' interface, and leave word where it is."""
    # Connections of its own: however many tenants log in, the period's calls don't wait.
    transport = _to_cloud(reactor, config, Inline(), body_bytes=_LOGIN_BYTES)
    closing.append(lambda: ensureDeferred(transport.close()))
    settings = config.api_settings
    house = House(
        questions=questions,
        preparing=questions.preparing,
        world=world,
        ledger=Ledger(world.database, world.now, config.money),
        logins=Logins(
            transport, reactor, kept_s=settings.login_s, refusal_kept_s=settings.refusal_s
        ),
        version=metadata.version("merkat"),
    )
    try:
        door = serve_tenants(reactor, settings, house)
    except NotServedError as error:
        raise StartError(str(error)) from None
    closing.append(lambda: ensureDeferred(door.close()))
    (config.state_directory / "merkat_xmlrpc").write_text(f"{door.endpoint}\n")
    _log.info("Tenants are answered at {endpoint}", endpoint=door.endpoint)


def _to_cloud(reactor: Any, config: Config, executor: Executor, **options: Any) -> HttpTransport:
    """The way to wherever the cloud answers; the embedded one has left word of it."""
    endpoint = config.endpoint
    if config.cloud.kind is not CloudKind.OPENNEBULA:
        endpoint = (config.state_directory / "one_xmlrpc").read_text().strip()
    try:
        return HttpTransport(reactor, endpoint, executor, authorities=config.authorities, **options)
    except TrustError as error:
        raise StartError(str(error)) from None


def _hypervisors(
    reactor: Any, config: Config, client: Client, closing: list[Callable[[], Any]]
) -> Hypervisors:
    """What tells hosts their limits."""
    chosen = config.hypervisor
    if chosen.kind is HypervisorKind.EMBEDDED:
        return EmbeddedHypervisors(client)
    try:
        found = LibvirtHypervisors(
            reactor,
            Addresses(chosen.uri, chosen.uris),
            chosen,
            config.limits,
            goods=config.goods.further,
        )
    except MissingError as error:
        raise StartError(str(error)) from None
    closing.append(lambda: ensureDeferred(found.close()))
    return found


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


def _leading(reactor: Any, config: Config, database: Database, client: Client) -> Leading | None:
    """What other daemons may act on the same cloud; nobody else can on one of our own."""
    if config.cloud.kind is not CloudKind.OPENNEBULA:
        return None
    return Leading(
        database,
        reactor,
        _holder(config.state_directory / "holder"),
        lease_s_of(config.period.interval_s),
        partial(leads, client),
        # Goes on while the machine sleeps, as the lease does.
        partial(time.clock_gettime, time.CLOCK_BOOTTIME),
    )


def _holder(path: Path) -> str:
    """The name of whoever has this state directory, the same after each start."""
    if not path.exists():
        path.write_text(f"{socket.gethostname()[:64]}-{secrets.token_hex(8)}\n")
    return path.read_text().strip()


async def _certain(leaders: Sequence[Leading]) -> None:
    for one in leaders:
        await one.certain()


def _client(
    reactor: Any,
    config: Config,
    workers: Threads,
    closing: list[Callable[[], Any]],
    certain: Callable[[], Awaitable[None]],
) -> tuple[Client, ScaledClock]:
    """The way to the cloud, and the time that passes there."""
    if config.cloud.kind is CloudKind.OPENNEBULA:
        now = time.time()
        clock = ScaledClock(reactor, time.time, 1.0, now, now)
        transport = _to_cloud(reactor, config, workers)
        closing.append(lambda: ensureDeferred(transport.close()))
        guarded = Guarded(transport, certain)
        return _speaking(guarded, _login(config.auth_file), clock, config), clock
    store = SqliteStore(config.state_directory / "cloud.db")
    clock = clock_of(config.cloud.speed, store, reactor)
    auth = config.state_directory / "one_auth"
    if not auth.exists():
        _write_secret(auth, f"oneadmin:{secrets.token_urlsafe(16)}\n")
    login = _login(auth)
    size = HostSize(config.cloud.host_cores * 100, config.cloud.host_memory_mib)
    plan = Plan(hosts=(HostGroup(config.cloud.hosts, size),))
    cloud: Cloud = open_cloud(
        clock, plan, login.session.partition(":")[2], config.cloud.seed, store
    )
    closing.append(cloud.close)
    server = serve(cloud, reactor)
    closing.append(lambda: ensureDeferred(server.stop()))
    (config.state_directory / "one_xmlrpc").write_text(f"{server.endpoint}\n")
    _log.info(
        "The embedded cloud answers at {endpoint}, its login is in {auth}",
        endpoint=server.endpoint,
        auth=str(auth),
    )
    return _speaking(MemoryTransport(cloud), login, clock, config), clock


def _speaking(transport: Transport, login: Login, clock: ScaledClock, config: Config) -> Client:
    return Client(
        transport,
        login.session,
        clock,
        timeout_s=config.cloud.call_limit_s,
        origin=login.origin,
    )


def _login(path: Path) -> Login:
    try:
        return login_from(path)
    except LoginError as error:
        raise StartError(str(error)) from None


def _write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
