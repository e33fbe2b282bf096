"""Real hosts for tests: shared by a module that harms none, or of one test alone."""

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
    """The bridge that joins the hosts."""
    with bridge():
        yield


@pytest.fixture(scope="module")
def hosts(plugs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RealHost]]:  # noqa: ARG001
    """Two hosts for all tests of a module, which may kill neither."""
    yield from _running(tmp_path_factory)


@pytest.fixture
def mortal_hosts(
    plugs: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[RealHost]]:
    """Two hosts for one test, which may do to them what it likes."""
    yield from _running(tmp_path_factory)


def _running(places: pytest.TempPathFactory) -> Iterator[list[RealHost]]:
    directory = places.mktemp("hosts")
    with ExitStack() as stack:
        found = []
        for number in range(COUNT):
            host = RealHost(directory, number, COUNT)
            stack.callback(host.close)
            found.append(host)
        yield found


@pytest.fixture(scope="module")
def port(real_time: RealTime, hosts: list[RealHost]) -> Iterator[Port]:
    """The adapter, with the module's hosts."""
    yield from opened(real_time, hosts, "qemu")


@pytest.fixture(scope="module")
def port_lxc(real_time: RealTime, hosts: list[RealHost]) -> Iterator[Port]:
    """The same for their containers."""
    yield from opened(real_time, hosts, "lxc")
