"""The connections to the cloud and to the hypervisors, built from the configuration."""

import secrets
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.api.metrics.call_metrics import Calls, CallStatistics
from merkatd.base.clock import Clock, Executor, Threads
from merkatd.config.configuration import Config
from merkatd.config.process_sections import CloudKind, HypervisorKind
from merkatd.daemon.errors import StartError
from merkatd.daemon.safe_files import read_or_create
from merkatd.daemon.shutdown import OpenParts
from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.cloud_file import (
    ClockMaker,
    CloudDescription,
    HostGroup,
    clock_of,
    open_cloud,
)
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.embedded.model.event_clock import ScaledClock
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.rpc_server import serve
from merkatd.embedded.state_file import SqliteStore, StateError
from merkatd.hypervisor import EmbeddedHypervisors, UntouchedHypervisors
from merkatd.hypervisor.libvirt import Addresses, LibvirtHypervisors, LibvirtMissingError
from merkatd.hypervisor.power_commands import PowerCommands
from merkatd.hypervisor.simulated_hosts import EmbeddedPower
from merkatd.opennebula import Client, HttpTransport, Transport, TrustError
from merkatd.opennebula.rpc.credentials import Credentials, LoginError, login_from
from merkatd.opennebula.rpc.transport import LeaderOnlyTransport
from merkatd.scheduler.base.ports import HypervisorPort
from merkatd.scheduler.base.power_port import PowerPort

_log = Logger()

_SWITCHED_AT_ONCE = 16
"""The number of hosts whose commands run at once."""


def transport_to_cloud(
    reactor: Any, config: Config, executor: Executor, **options: Any
) -> HttpTransport:
    """Return a transport to the cloud. The embedded cloud's endpoint is in a file.

    Raise StartError if the CA certificates can't be used.
    """
    endpoint = config.endpoint
    if config.cloud.kind is not CloudKind.OPENNEBULA:
        endpoint = (config.state_directory / "one_xmlrpc").read_text().strip()
    try:
        return HttpTransport(reactor, endpoint, executor, authorities=config.authorities, **options)
    except TrustError as error:
        raise StartError(str(error)) from None


def client_of(
    reactor: Any,
    config: Config,
    workers: Threads,
    closing: OpenParts,
    certain: Callable[[], Awaitable[None]],
    calls: Calls,
    make_clock: ClockMaker = ScaledClock,
) -> tuple[Client, Clock, Callable[[], float]]:
    """Return a client of the cloud, the cloud's clock, and a function that gives its wall time."""
    if config.cloud.kind is CloudKind.OPENNEBULA:
        transport = transport_to_cloud(reactor, config, workers)
        closing.add("the connections to OpenNebula", lambda: ensureDeferred(transport.close()))
        guarded = LeaderOnlyTransport(calls.through(transport), certain)
        return _speaking(guarded, _login(config.auth_file), reactor, config), reactor, time.time
    try:
        cloud, clock, login = _embedded(reactor, config, make_clock)
    except StateError as error:
        raise StartError(str(error)) from None
    except sqlite3.Error as error:
        raise StartError(
            f"{config.state_directory / 'cloud.db'}: {error}; free some space there, or name"
            " another folder as daemon.state_directory"
        ) from None
    closing.add("the embedded cloud", cloud.close)
    server = serve(cloud, reactor)
    closing.add("the embedded cloud's server", lambda: ensureDeferred(server.stop()))
    (config.state_directory / "one_xmlrpc").write_text(f"{server.endpoint}\n")
    _log.info(
        "The embedded cloud listens at {endpoint}; its login is in {auth}",
        endpoint=server.endpoint,
        auth=str(config.state_directory / "one_auth"),
    )
    client = _speaking(calls.through(MemoryTransport(cloud)), login, clock, config)
    return client, clock, clock.seconds


def _embedded(
    reactor: Any, config: Config, make_clock: ClockMaker
) -> tuple[EmbeddedCloud, Clock, Credentials]:
    """Return the embedded cloud, its clock and its login. Raise StateError or sqlite3.Error."""
    store = SqliteStore(config.state_directory / "cloud.db")
    clock = clock_of(config.cloud.speed, store, reactor, make_clock)
    auth = config.state_directory / "one_auth"
    read_or_create(auth, f"oneadmin:{secrets.token_urlsafe(16)}\n")
    login = _login(auth)
    size = HostSize(
        cpu=config.cloud.host_cores * 100,
        memory_mib=config.cloud.host_memory_mib,
        link_mbit_s=config.cloud.host_link_mbit_s,
        idle_watts=config.cloud.host_idle_watts,
        full_watts=config.cloud.host_full_watts,
    )
    plan = CloudDescription(hosts=(HostGroup(config.cloud.hosts, size),))
    cloud = open_cloud(
        clock,
        plan,
        login.session.partition(":")[2],
        config.cloud.seed,
        store,
        host_start_s=config.cloud.host_start_s,
    )
    return cloud, clock, login


def _speaking(transport: Transport, login: Credentials, clock: Clock, config: Config) -> Client:
    return Client(
        transport,
        login.session,
        clock,
        timeout_s=config.cloud.call_limit_s,
        origin=login.origin,
    )


def _login(path: Path) -> Credentials:
    try:
        return login_from(path)
    except LoginError as error:
        raise StartError(str(error)) from None


def power_of(reactor: Any, config: Config, client: Client, closing: OpenParts) -> PowerPort | None:
    """Return the port that switches hosts off and on; None if no host may be switched."""
    if not config.power.hosts:
        return None
    if config.cloud.kind is CloudKind.EMBEDDED:
        return EmbeddedPower(client, config.power.hosts)
    # A command may take long: each host that has its turn gets a thread.
    threads = Threads(reactor, _SWITCHED_AT_ONCE, name="power")
    closing.add("the commands for hosts", threads.stop)
    return PowerCommands(config.power, threads)


def hypervisors_of(
    reactor: Any,
    config: Config,
    client: Client,
    closing: OpenParts,
    loads: dict[str, CallStatistics],
    executor: Executor,
    surely: Callable[[], bool],
) -> HypervisorPort:
    """Return the port that sets limits on hosts; with libvirt, add its call statistics to `loads`.

    Loops over all VMs run on `executor`. The port calls hosts only while `surely` returns True:
    while this daemon certainly is the leader.
    """
    chosen = config.hypervisor
    if chosen.kind is HypervisorKind.EMBEDDED:
        return EmbeddedHypervisors(client, executor=executor)
    if chosen.kind is HypervisorKind.NONE:
        return UntouchedHypervisors()
    try:
        hypervisors = LibvirtHypervisors(
            reactor,
            Addresses(chosen.uri, chosen.uris),
            chosen,
            config.limits,
            goods=config.goods.further,
            executor=executor,
            surely=surely,
        )
    except LibvirtMissingError as error:
        raise StartError(str(error)) from None
    closing.add("the hosts", lambda: ensureDeferred(hypervisors.close()))
    loads["hosts"] = hypervisors.lines
    return hypervisors
