"""The rates at which guests write to their memory, measured by QEMU if the setting is on."""

import libvirt
import numpy as np
import pytest
from twisted.logger import capturedLogs

from merkatd.hypervisor.libvirt import LibvirtSettings
from tests.hypervisor.bed import Bed
from tests.hypervisor.double import DoubleDomain, DoubleHost

MEASURED = LibvirtSettings(dirty_rates=True, check_every=2)
START = "startDirtyRateCalc"


def bed_of(settings: LibvirtSettings = MEASURED) -> tuple[Bed, DoubleHost, DoubleDomain]:
    """Return a host with a guest that writes 7 MiB/s, read until it was due once."""
    host = DoubleHost()
    domain = host.start(0, writes_mib_s=7)
    bed = Bed({0: host}, settings)
    for _ in range(3):
        bed.read()
    return bed, host, domain


def rates(bed: Bed) -> list[float]:
    """Return the rates of a new reading, -1 if they are unknown."""
    measured = bed.read().dirty_mib_s
    assert measured is not None
    return [-1.0 if np.isnan(rate) else float(rate) for rate in measured]


def test_a_rate_is_read_once_it_is_measured() -> None:
    """A measurement takes a while; until then, and during the next one, the last rate counts."""
    bed, host, domain = bed_of()
    assert (host.calls[START], domain.measuring) == (1, True)
    domain.measuring = False
    assert rates(bed) == [7.0]
    domain.writes_mib_s = 30
    assert rates(bed) == [7.0]
    assert (host.calls[START], domain.measuring) == (2, True)
    assert rates(bed) == [7.0]
    domain.measuring = False
    assert rates(bed) == [30.0]


def test_nothing_is_measured_without_the_setting() -> None:
    """No call starts a measurement, and another program's measurement is not read."""
    bed, host, domain = bed_of(LibvirtSettings(check_every=2))
    domain.measured_mib_s = 9
    assert (rates(bed), host.calls[START]) == ([-1.0], 0)


def test_a_guest_that_is_moved_or_measured_is_left_alone() -> None:
    """A measurement would wait for a migration, and QEMU refuses a second one."""
    bed, host, domain = bed_of()
    for _ in range(4):
        assert rates(bed) == [-1.0]
    assert host.calls[START] == 1
    domain.measuring = False
    domain.job = {"type": 2, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_MIGRATION_OUT}
    for _ in range(4):
        bed.read()
    assert host.calls[START] == 1
    domain.job = {"type": 0}
    for _ in range(2):
        bed.read()
    assert host.calls[START] == 2


@pytest.mark.parametrize(
    "code", [libvirt.VIR_ERR_OPERATION_UNSUPPORTED, libvirt.VIR_ERR_INTERNAL_ERROR]
)
def test_a_guest_that_refuses_is_read_without_its_rate(code: int) -> None:
    """Older QEMU can't measure; its guests are read and limited all the same."""
    host = DoubleHost(refuse=lambda call, _domain: code if call == START else None)
    host.start(0, writes_mib_s=7)
    bed = Bed({0: host}, MEASURED)
    with capturedLogs() as events:
        for _ in range(4):
            assert rates(bed) == [-1.0]
    assert host.calls[START] >= 1
    assert not [event for event in events if "can't be read" in event.get("log_format", "")]


def test_a_restarted_guest_has_no_rate_yet() -> None:
    """The rate of its earlier run says nothing."""
    bed, host, domain = bed_of()
    domain.measuring = False
    assert rates(bed) == [7.0]
    host.start(0)
    assert rates(bed) == [-1.0]


@pytest.mark.parametrize("kind", ["lxc", "xen"])
def test_other_guests_are_not_measured(kind: str) -> None:
    """Only QEMU can do it."""
    host = DoubleHost(kind=kind)
    host.start(0)
    bed = Bed({0: host}, MEASURED)
    for _ in range(3):
        assert rates(bed) == [-1.0]
    assert host.calls[START] == 0
