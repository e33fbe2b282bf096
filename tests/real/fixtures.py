"""Real hosts for tests: shared by the tests of a module, or for one test that may damage them."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.opennebula.conftest import real_time
from tests.opennebula.worlds import RealTime
from tests.real.host import RealHost
from tests.real.network import bridge
from tests.real.port import Port, opened

__all__ = ["hosts", "mortal_hosts", "plugs", "port", "port_lxc", "real_time"]

COUNT = 2


@pytest.fixture(scope="session")
def plugs() -> Iterator[None]:
    """Create the bridge that joins the hosts."""
    with bridge():
        yield


@pytest.fixture(scope="module")
def hosts(plugs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RealHost]]:  # noqa: ARG001
    """Return two hosts for all tests of a module, which must not kill them."""
    yield from _running(tmp_path_factory)


@pytest.fixture
def mortal_hosts(
    plugs: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[RealHost]]:
    """Return two hosts for one test, which may kill them."""
    yield from _running(tmp_path_factory)


def _running(places: pytest.TempPathFactory) -> Iterator[list[RealHost]]:
    directory = places.mktemp("hosts")
    with ExitStack() as stack:
        hosts = []
        for number in range(COUNT):
            host = RealHost(directory, number, COUNT)
            stack.callback(host.close)
            hosts.append(host)
        yield hosts


@pytest.fixture(scope="module")
def port(real_time: RealTime, hosts: list[RealHost]) -> Iterator[Port]:
    """Return the adapter, with the module's hosts."""
    yield from opened(real_time, hosts, "qemu")


@pytest.fixture(scope="module")
def port_lxc(real_time: RealTime, hosts: list[RealHost]) -> Iterator[Port]:
    """Return the adapter for the hosts' containers."""
    yield from opened(real_time, hosts, "lxc")
