"""A whole Merkat on a real Xen: its periods keep weight, cap, memory and pins as bids are."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from merkatd.demo.guest_domains import StartGuest
from tests.real.host import until
from tests.real.site import Cloud
from tests.xen.fixtures import CALL_S, MEMORY_MIB, PATIENCE_S
from tests.xen.host import CORES, XenGuest, XenHost, cores_used, described

INTERVAL_S = 4.0
CHECK_EVERY = 2
FLOOR_MIB = 128
WINDOW_S = 10.0
OWN = {"weight": 256, "cap": 0}
"""Of a VM of one core, as OpenNebula has it."""
_CONFIGURATION = """\
pin_hosts = ["*"]
check_every = {check_every}
call_limit = "{call_s:g}s"
period_limit = "{patience_s:g}s"
xen_command = "{xl}"
[limits.memory]
shrink_unmeasured = true
"""


class XenCloud(Cloud):
    """The embedded cloud with one host, which is the Xen machine."""

    def __init__(self, directory: Path, xen: XenHost) -> None:
        more = _CONFIGURATION.format(
            check_every=CHECK_EVERY, call_s=CALL_S, patience_s=PATIENCE_S / 2, xl=xen.xl
        )
        self.xen = xen
        super().__init__(
            directory,
            [xen.uri],
            xen.uri,
            cores=CORES,
            memory_mib=FLOOR_MIB + MEMORY_MIB,
            more=more,
            interval_s=INTERVAL_S,
            patience_s=PATIENCE_S,
        )

    def described(self, start: StartGuest) -> str:
        """A guest of Xen."""
        return described(start.vm, start.vcpus, start.memory_mib)

    def guest(self, bid: float) -> XenGuest:
        """Of a new VM, once it burns."""
        more = f'MERKAT_MIN_MEMORY="{FLOOR_MIB}"'
        vm = self.new(bid, vcpus=CORES, memory_mib=MEMORY_MIB, more=more)
        return XenGuest(self.xen, vm)


@pytest.fixture
def cloud(xen: XenHost, tmp_path: Path) -> Iterator[XenCloud]:
    """It runs, and is closed in any case."""
    new_cloud = XenCloud(tmp_path / "cloud", xen)
    try:
        new_cloud.start()
        yield new_cloud
    finally:
        new_cloud.close()


def test_periods_keep_a_xen_host(cloud: XenCloud) -> None:
    """Bids of 1 and 3, then of 9 and 3; what others change is put right; release frees all."""
    guests = [cloud.guest(1.0), cloud.guest(3.0)]
    low, high = guests
    _until(lambda: _caps(guests) == [50, 150], "caps are the shares")
    assert high.scheduling["weight"] == pytest.approx(3 * low.scheduling["weight"], rel=0.01)
    _until(lambda: all(_pinned(guest) for guest in guests), "each virtual CPU has its core")
    _until(lambda: _balloons(guests) == [FLOOR_MIB, MEMORY_MIB], "memory follows the bids")
    lower, higher = cores_used(guests, WINDOW_S)
    assert 0.5 * 0.85 <= lower <= 0.5 * 1.05
    assert lower < higher <= 1.5 * 1.05

    cloud.call("one.vm.update", low.vm, 'MERKAT_BID_CPU="9"', 1)
    _until(lambda: _caps(guests) == [150, 50], "caps follow the bids")

    assert cloud.status()["drift"] == 0
    pins = low.affinity
    cloud.xen.run("xl", "vcpu-pin", low.name, "0", "all")
    _until(lambda: low.affinity == pins, "pins are put right")
    cloud.xen.run("xl", "sched-credit", "-d", low.name, "-c", "77")
    _until(lambda: _caps(guests) == [150, 50], "so is the cap")
    assert cloud.status()["drift"] == 2

    cloud.command("release", "--yes")
    assert [guest.scheduling for guest in guests] == [OWN, OWN]
    assert [guest.affinity for guest in guests] == [["all"] * CORES] * 2
    _until(lambda: _balloons(guests) == [MEMORY_MIB] * 2, "both have all their memory")
    assert not cloud.failed


def _until(met: Callable[[], object], what: str) -> None:
    until(met, what, patience_s=PATIENCE_S)


def _caps(guests: list[XenGuest]) -> list[int]:
    return [guest.scheduling["cap"] for guest in guests]


def _balloons(guests: list[XenGuest]) -> list[int]:
    return [guest.balloon_mib for guest in guests]


def _pinned(guest: XenGuest) -> bool:
    return sorted(guest.affinity) == [str(core) for core in range(CORES)]
