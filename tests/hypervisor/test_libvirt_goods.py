"""Network and disk limits through libvirt: divided among devices, read back, and removed."""

import libvirt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.limits import BEYOND, UNSET
from merkatd.scheduler.base.ports import FullSize, ReleaseResult
from tests.hypervisor.bed import Bed, run_now, throttle
from tests.hypervisor.double import DoubleDomain, DoubleHost

GOODS = ("network", "disk")
EVERY_PERIOD = LibvirtSettings(check_every=1)
FREE = (0, 0)


def one_guest(nics: int = 2, disks: int = 2, kind: str = "qemu") -> tuple[Bed, DoubleDomain]:
    """Return VM 1 with this number of devices, read once."""
    host = DoubleHost(kind)
    domain = host.start(
        1,
        nics={f"one-1-{nic}": FREE for nic in range(nics)},
        disks={f"vd{'abcdef'[disk]}": 0 for disk in range(disks)},
    )
    bed = Bed({0: host}, EVERY_PERIOD, goods=GOODS)
    bed.read()
    return bed, domain


def limits(bed: Bed) -> dict[str, int]:
    """Return the network and disk limits in force on VM 1."""
    further = bed.read().in_force.further
    return {name: int(column[0]) for name, column in further.items()}


def test_all_devices_share_a_limit() -> None:
    """Devices share it evenly, receiving equals sending, and an empty CD-ROM does not count."""
    bed, domain = one_guest()
    assert limits(bed) == {"network": UNSET, "disk": UNSET}
    assert bed.apply(throttle(1, 1000, 2048)) == {}
    assert domain.nics == {"one-1-0": (500, 500), "one-1-1": (500, 500)}
    assert domain.disks == {"vda": 1 << 20, "vdb": 1 << 20}
    assert limits(bed) == {"network": 1000, "disk": 2048}


def guest_with_cdroms(*cdroms: str) -> tuple[Bed, DoubleDomain]:
    """Return VM 1 with a disk and these CD-ROMs, read once."""
    host = DoubleHost("qemu")
    domain = host.start(1, disks=dict.fromkeys(["vda", *cdroms], 0))
    bed = Bed({0: host}, EVERY_PERIOD, goods=("disk",))
    bed.read()
    return bed, domain


@pytest.mark.parametrize(("limit_kib_s", "cdrom"), [(40 << 10, 2 << 20), (1024, 1 << 20)])
def test_the_only_cdrom_has_a_small_limit_of_its_own(limit_kib_s: int, cdrom: int) -> None:
    """It is a twentieth of the VM's and at least a MiB/s; the disk has the whole limit."""
    bed, domain = guest_with_cdroms("hda")
    assert bed.apply(throttle(1, disk_kib_s=limit_kib_s)) == {}
    assert domain.disks == {"vda": limit_kib_s << 10, "hda": cdrom}
    assert limits(bed)["disk"] == limit_kib_s


def test_several_cdroms_share_the_limit_like_disks() -> None:
    """An owner attaches a second one, which has no limit until the next period."""
    bed, domain = guest_with_cdroms("hda")
    bed.apply(throttle(1, disk_kib_s=3 << 10))
    domain.disks["hdb"] = 0
    assert limits(bed)["disk"] == UNSET
    assert bed.apply(throttle(1, disk_kib_s=3 << 10)) == {}
    assert domain.disks == dict.fromkeys(["vda", "hda", "hdb"], 1 << 20)
    assert limits(bed)["disk"] == 3 << 10
    del domain.disks["hdb"]
    assert limits(bed)["disk"] == 1 << 10
    assert bed.apply(throttle(1, disk_kib_s=3 << 10)) == {}
    assert domain.disks == {"vda": 3 << 20, "hda": 1 << 20}
    full_size = FullSize(vm=1, host=0, cpu_units=100.0, memory_mib=1024, vcpus=2)
    run_now(bed.adapter.release([full_size]))
    assert domain.disks == {"vda": 0, "hda": 0}


def test_a_reattached_cdrom_is_limited_in_the_next_period() -> None:
    """The only CD-ROM counts as unlimited too."""
    bed, domain = guest_with_cdroms("hda")
    bed.apply(throttle(1, disk_kib_s=1024))
    domain.disks["hda"] = 0
    assert limits(bed)["disk"] == UNSET


@settings(deadline=None)
@given(
    nics=st.integers(1, 4),
    disks=st.integers(1, 4),
    network=st.integers(125, 10**7),
    disk=st.integers(1024, 10**7),
)
def test_limits_are_read_back(nics: int, disks: int, network: int, disk: int) -> None:
    """The sum never exceeds the limit and is smaller only by rounding."""
    bed, domain = one_guest(nics, disks)
    step = throttle(1, network, disk)
    assert bed.apply(step) == {}
    there = limits(bed)
    assert network - nics < there["network"] <= network
    assert disk - 1 <= there["disk"] <= disk
    domain.host.calls.clear()
    assert bed.apply(step) == {}
    assert not domain.host.changes()


def test_only_the_given_goods_are_set() -> None:
    """A step about the disk leaves the network unchanged."""
    bed, domain = one_guest()
    assert bed.apply(throttle(1, disk_kib_s=100)) == {}
    assert domain.nics == {"one-1-0": FREE, "one-1-1": FREE}
    assert limits(bed) == {"network": UNSET, "disk": 100}


def test_changes_by_other_programs_are_reverted() -> None:
    """Such a change counts once as drift and is reverted by the next step."""
    bed, domain = one_guest()
    bed.apply(throttle(1, 1000, 2048))
    bed.read()
    domain.nics["one-1-1"] = FREE
    assert limits(bed) == {"network": UNSET, "disk": 2048}
    assert bed.adapter.reach().drift == 1
    domain.host.calls.clear()
    assert bed.apply(throttle(1, 1000)) == {}
    assert domain.host.changes() == {"setInterfaceParameters": 1}
    assert limits(bed) == {"network": 1000, "disk": 2048}
    assert bed.adapter.reach().drift == 1


def test_a_new_device_makes_the_limit_due() -> None:
    """A new device is unlimited, which is no drift, and the limit is divided again."""
    bed, domain = one_guest(nics=1)
    bed.apply(throttle(1, 1000))
    domain.nics["one-1-1"] = FREE
    assert limits(bed)["network"] == UNSET
    assert bed.adapter.reach().drift == 0
    assert bed.apply(throttle(1, 1000)) == {}
    assert domain.nics == {"one-1-0": (500, 500), "one-1-1": (500, 500)}


@pytest.mark.parametrize("good", GOODS)
def test_a_reattached_device_is_limited_in_the_next_period(good: str) -> None:
    """Owners may detach and attach devices, so each period checks them."""
    host = DoubleHost("qemu")
    domain = host.start(1, nics={"one-1-0": FREE}, disks={"vda": 0})
    bed = Bed({0: host}, LibvirtSettings(check_every=10), goods=GOODS)
    bed.read()
    for _ in range(12):
        assert bed.apply(throttle(1, 1000, 2048)) == {}
        assert limits(bed) == {"network": 1000, "disk": 2048}
        if good == "network":
            domain.nics["one-1-0"] = FREE
        else:
            domain.disks["vda"] = 0
        assert limits(bed)[good] == UNSET


def test_interfaces_without_a_host_device_cannot_be_limited() -> None:
    """They are reported as beyond reach, and a step is refused with the reason."""
    host = DoubleHost()
    host.start(1, nics={"net0": FREE}, kinds={"net0": "user"}, disks={"vda": 0})
    bed = Bed({0: host}, EVERY_PERIOD, goods=GOODS)
    assert limits(bed) == {"network": BEYOND, "disk": UNSET}
    step = throttle(1, 1000)
    assert bed.apply(step) == {step.id: "0: it has no interface that can be limited"}


@pytest.mark.parametrize("kind", ["lxc", "xen"])
def test_other_hypervisors_are_not_read(kind: str) -> None:
    """Their guests are beyond reach, and no call is made for them."""
    bed, domain = one_guest(kind=kind)
    assert limits(bed) == {"network": BEYOND, "disk": BEYOND}
    step = throttle(1, 1000)
    assert list(bed.apply(step)) == [step.id]
    assert domain.host.calls["XMLDesc"] == 0


def test_devices_are_not_read_unless_their_goods_are_sold() -> None:
    """The guest's XML is read once as usual, and its devices are not reported."""
    host = DoubleHost()
    host.start(1, nics={"net0": (10, 10)})
    bed = Bed({0: host}, EVERY_PERIOD)
    for _ in range(3):
        assert limits(bed) == {"network": BEYOND, "disk": BEYOND}
    assert host.calls["XMLDesc"] == 1


def test_a_refusal_is_named_and_the_real_limits_are_read() -> None:
    """One device may have been set before the other one refused."""
    bed, domain = one_guest()
    wrong = libvirt.VIR_ERR_OPERATION_FAILED
    domain.host.refuse = lambda call, _domain: wrong if call == "setBlockIoTune" else None
    step = throttle(1, 1000, 2048)
    (why,) = bed.apply(step).values()
    assert "setBlockIoTune is refused" in why
    assert limits(bed) == {"network": 1000, "disk": UNSET}
    domain.host.refuse = lambda call, _domain: wrong if call == "setInterfaceParameters" else None
    (why,) = bed.apply(throttle(1, 2000, 2048)).values()
    assert "setInterfaceParameters is refused" in why
    assert limits(bed) == {"network": 1000, "disk": 2048}


def test_release_removes_the_limits() -> None:
    """Limits of sold goods are removed, whatever program set them."""
    bed, domain = one_guest()
    bed.apply(throttle(1, 1000, 2048))
    full_size = FullSize(vm=1, host=0, cpu_units=100.0, memory_mib=1024, vcpus=2)
    did: dict[int, ReleaseResult] = run_now(bed.adapter.release([full_size]))
    assert did[1].problem == ""
    assert did[1].did.endswith("no network and disk limits")
    assert domain.nics == {"one-1-0": FREE, "one-1-1": FREE}
    assert domain.disks == {"vda": 0, "vdb": 0}
    assert limits(bed) == {"network": UNSET, "disk": UNSET}
