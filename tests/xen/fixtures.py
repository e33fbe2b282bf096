"""A machine with Xen for all tests, two guests on it, and the adapter that limits them."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.hypervisor.libvirt import LibvirtHypervisors, LibvirtSettings
from tests.opennebula.worlds import RealTime
from tests.real.port import Port
from tests.xen.host import CORES, XenGuest, XenHost, described

Result = TypeVar("Result")
VMS = (1, 2)
MEMORY_MIB = 160
PATIENCE_S = 180.0
CALL_S = 60.0


class SlowTime(RealTime):
    """An emulated machine answers when it can."""

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """What the coroutine returns, or raises."""
        outcome: asyncio.Future[Result] = ensureDeferred(running).asFuture(self.loop)
        return self.loop.run_until_complete(asyncio.wait_for(outcome, PATIENCE_S))


@pytest.fixture(scope="session")
def real_time() -> Iterator[SlowTime]:
    """One reactor for all tests."""
    time = SlowTime()
    yield time
    time.close()


@pytest.fixture(scope="session")
def xen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[XenHost]:
    """The machine."""
    host = XenHost(tmp_path_factory.mktemp("xen"))
    yield host
    host.close()


@pytest.fixture(scope="module")
def guests(xen: XenHost) -> Iterator[list[XenGuest]]:
    """A guest for each of VMS, with virtual CPUs that are always busy."""
    started = [xen.connection().createXML(described(vm, CORES, MEMORY_MIB), 0) for vm in VMS]
    yield [XenGuest(xen, vm) for vm in VMS]
    for domain in started:
        domain.destroy()


@pytest.fixture
def port(real_time: SlowTime, xen: XenHost) -> Iterator[Port]:
    """The adapter, as a daemon has it that has just started; it may pin."""
    yield from opened(real_time, xen)


def opened(time: RealTime, xen: XenHost) -> Iterator[Port]:
    """The adapter, closed afterwards."""
    adapter = LibvirtHypervisors(
        time.reactor,
        lambda _: xen.uri,
        LibvirtSettings(
            pin_hosts=frozenset({"*"}),
            check_every=1,
            call_limit_s=CALL_S,
            period_limit_s=PATIENCE_S / 2,
            xen_command=xen.xl,
        ),
    )
    yield Port(time, adapter)
    time.run(adapter.close())
