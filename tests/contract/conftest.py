"""The endpoints: the embedded cloud, and an OpenNebula if the environment names one."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from lxml import etree
from twisted.internet.task import Clock

from merkatd.base.clock import Inline, Threads
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.embedded.model.settings import Delays, EmbeddedSettings
from merkatd.embedded.rpc_server import serve
from merkatd.opennebula import HttpTransport
from tests.contract.beside import Daemon, RunningDaemon
from tests.contract.cleaning import clean, refuse_to_harm, restore
from tests.contract.drivers import DummyDrivers, EmbeddedDrivers
from tests.contract.endpoint import Endpoint
from tests.contract.merkat import Merkat
from tests.lengths import SOAK
from tests.opennebula.worlds import ADMIN, RealTime, VirtualTime, make_cloud

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.drivers import Drivers

REAL = "MERKAT_ONE_ENDPOINT"
AUTH = "MERKAT_ONE_AUTH"
DUMMY = "MERKAT_ONE_DUMMY"
"""The folder of answers for a real server's dummy driver; may be missing."""

HOSTS = 3

_OVER_HTTP = frozenset(
    {"test_calls", "test_pools", "test_adapter", "test_login", "test_names", "test_forging"}
)
"""The modules whose promises depend on the transport: types, pages, steps, logins and odd bytes.

The others run over HTTP in `make soak` only: there the same cloud answers through the same server.
"""

_LONG = frozenset({"test_states", "test_capacity"})
"""The slowest modules, which never run over HTTP."""

_PROCESSES = "test_processes"
"""The module that starts a separate daemon, which can't connect to a cloud in memory."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on each available endpoint."""
    module = metafunc.module.__name__.rpartition(".")[2]
    wanted = [REAL, AUTH, *([DUMMY] if "drivers" in metafunc.fixturenames else [])]
    real = ["oned"] if all(os.environ.get(name) for name in wanted) else []
    if module == _PROCESSES:
        metafunc.parametrize("running", ["http", *real], indirect=True, scope="module")
    elif "endpoint" in metafunc.fixturenames:
        http = module in _OVER_HTTP or (SOAK and module not in _LONG)
        embedded = ["memory", "http"] if http else ["memory"]
        metafunc.parametrize("endpoint", [*embedded, *real], indirect=True)


@pytest.fixture(scope="session")
def reactor_time() -> Iterator[RealTime]:
    """Return one reactor for all tests over HTTP."""
    time = RealTime()
    yield time
    time.close()


@pytest.fixture
def endpoint(request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """Return a clean cloud with three monitored hosts of the dummy driver."""
    if request.param == "memory":
        made = in_memory(EmbeddedSettings())
        made.add_hosts(HOSTS)
        yield made
        return
    with _served(request.param, request.getfixturevalue("reactor_time")) as made:
        yield made


@pytest.fixture(scope="module")
def running(
    request: pytest.FixtureRequest, reactor_time: RealTime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningDaemon]:
    """Return an endpoint and a daemon with short periods in a separate process beside it."""
    with _served(request.param, reactor_time) as made:
        daemon = Daemon(made, tmp_path_factory.mktemp("daemon"))
        try:
            daemon.start()
            yield RunningDaemon(made, daemon, _templates(made))
        finally:
            daemon.close()


@pytest.fixture
def old_endpoint() -> Endpoint:
    """Return a clean cloud whose scheduler runs scheduled actions, as up to 6.6."""
    made = in_memory(EmbeddedSettings(version="6.6.3"))
    made.add_hosts(HOSTS)
    return made


@pytest.fixture
def drivers(endpoint: Endpoint) -> Iterator[Drivers]:
    """Return the hosts' drivers, which a test can make fail."""
    assert endpoint.drivers is not None
    yield endpoint.drivers
    endpoint.drivers.mend()


@pytest.fixture
def merkat(endpoint: Endpoint) -> Iterator[Merkat]:
    """Return a scheduler for three equal hosts."""
    made = Merkat(endpoint)
    yield made
    made.close()


_TEMPLATES: dict[int, str] = {}
"""The first templates of the hosts that a real server keeps between tests."""


def _start_with_new_hosts(made: Endpoint) -> None:
    """Start with new hosts."""
    _TEMPLATES.clear()
    clean(made)
    made.add_hosts(HOSTS)
    _TEMPLATES.update(_templates(made))


def _templates(made: Endpoint) -> dict[int, str]:
    """Return the templates of the test hosts."""
    templates = {}
    for host in made.hosts:
        template = made.xml("one.host.info", host).find("TEMPLATE")
        assert template is not None
        templates[host] = etree.tostring(template, encoding="unicode")
    return templates


def in_memory(settings: EmbeddedSettings) -> Endpoint:
    """Return an embedded cloud in this process, in virtual time."""
    clock = Clock()
    clock.advance(1_000.0)  # oned writes 0 for a time that never was
    cloud = make_cloud(clock, 0, settings)
    return Endpoint(
        MemoryTransport(cloud), ADMIN, VirtualTime(clock), clock, Inline(), EmbeddedDrivers(cloud)
    )


@contextmanager
def _served(kind: str, time: RealTime) -> Iterator[Endpoint]:
    """Yield a clean cloud behind HTTP, with three monitored hosts; clean it afterwards."""
    if kind == "oned":
        with _oned(time) as made:
            if not (_TEMPLATES and restore(made, _TEMPLATES)):
                _start_with_new_hosts(made)
            yield made
            clean(made, _TEMPLATES)
        return
    with _over_http(time) as made:
        try:
            made.add_hosts(HOSTS)
            yield made
        finally:
            clean(made)


@contextmanager
def _over_http(time: RealTime) -> Iterator[Endpoint]:
    time.faster = RealTime.faster
    delays = Delays(factor=1 / time.faster)
    cloud = make_cloud(time.reactor, 0, EmbeddedSettings(delays=delays, monitor_interval_s=0))
    server = serve(cloud, time.reactor)
    with _client(time, server.endpoint, ADMIN, EmbeddedDrivers(cloud)) as made:
        yield made
    time.run(server.stop())
    cloud.close()


@contextmanager
def _oned(time: RealTime) -> Iterator[Endpoint]:
    time.faster = 1
    folder = os.environ.get(DUMMY)
    drivers = DummyDrivers(Path(folder)) if folder else None
    with _client(time, os.environ[REAL], _session(os.environ[AUTH]), drivers) as made:
        refuse_to_harm(made)
        clean(made, _TEMPLATES)
        yield made


@contextmanager
def _client(
    time: RealTime, address: str, admin: str, drivers: Drivers | None
) -> Iterator[Endpoint]:
    threads = Threads(time.reactor, 2)
    transport = HttpTransport(time.reactor, address, threads)
    try:
        yield Endpoint(transport, admin, time, time.reactor, threads, drivers, address)
    finally:
        time.run(transport.close())
        threads.stop()


def _session(auth: str) -> str:
    """Return the session, or the content of this file, as with OpenNebula's ONE_AUTH."""
    return auth if ":" in auth else Path(auth).read_text().strip()
