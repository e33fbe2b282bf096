"""Network and disk limits are set in a real guest's domain, take effect, and can be removed."""

import math
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from merkatd.cluster import Throttle
from merkatd.demo.demo_options import GuestKind
from merkatd.demo.guest_domains import described, disk
from merkatd.limits import UNSET
from merkatd.scheduler.base.ports import FullSize
from tests.opennebula.worlds import RealTime
from tests.real.domains import Guest, boot
from tests.real.host import RealHost
from tests.real.measuring import Got, measured
from tests.real.port import Port, opened

VM = 4
NICS = ("one-4-0", "one-4-1")
NETWORK_KB_S, DISK_KIB_S = 25_000, 4096
ABOVE, BELOW = 1.05, 0.90
LIMITS_KIB_S = (2048, 6144)
WINDOW_S = 4.0
SETTLING_S = 1.0
"""The time in which a guest may still use what it saved up before the limit."""
_PARTS = {
    "sch_htb": "qdisc replace dev {link} root handle 1: htb default 1",
    "cls_fw": "filter add dev {link} parent 1: protocol all prio 1 handle 1 fw flowid 1:1",
    "sch_ingress": "qdisc add dev {link} ingress",
    "act_police": "filter add dev {link} parent ffff: protocol all u32 match u32 0 0"
    " police rate 1mbit burst 10kb drop flowid :1",
    "sch_sfq": "qdisc replace dev {link} root handle 2: sfq",
}
"""For each part of the kernel, a command like those that libvirt runs."""


def plugged(host: RealHost) -> Guest:
    """Return a guest with two taps, a disk, and a CD-ROM."""
    path = host.directory / "disk"
    path.write_bytes(disk())
    image = host.directory / "context"
    image.write_bytes(disk())
    taps = "".join(f"<interface type='ethernet'><target dev='{nic}'/></interface>" for nic in NICS)
    cdrom = (
        f"<disk type='file' device='cdrom'><source file='{image}'/>"
        "<target dev='hda' bus='ide'/><readonly/></disk>"
    )
    text = described(GuestKind.QEMU, VM, 1, 32, str(path)).replace(
        "</devices>", f"{taps}{cdrom}</devices>"
    )
    host.connection().createXML(text, 0)
    return Guest(host, VM)


def lacking() -> list[str]:
    """Return the parts that libvirt needs for limits of interfaces and this kernel lacks."""
    with link() as name:
        return [part for part, words in _PARTS.items() if not traffic(words.format(link=name))]


def traffic(words: str) -> bool:
    """Return whether the kernel can limit interfaces."""
    command = ["/usr/sbin/tc", *words.split()]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def link() -> Iterator[str]:
    """Create a cable that leads nowhere."""
    ends = ("merkat-try", "merkat-try-end")
    add = ["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]]
    subprocess.run(add, check=True)
    yield ends[0]
    subprocess.run(["ip", "link", "delete", ends[0]], check=True)


def in_force(port: Port) -> dict[str, int]:
    """Return the limits that the adapter reads."""
    further = port.read({VM: 0}).in_force.further
    return {name: int(column[0]) for name, column in further.items()}


def release(real_time: RealTime, port: Port, memory_mib: int = 32) -> None:
    """Restore the guest's full size."""
    full_size = FullSize(vm=VM, host=0, cpu_units=100.0, memory_mib=memory_mib, vcpus=1)
    did = real_time.run(port.hypervisors.release([full_size]))
    assert did[VM].problem == ""


def test_a_disks_limit_stands_and_goes(real_time: RealTime, mortal_hosts: list[RealHost]) -> None:
    """`virsh blkdeviotune` shows the limit, and shows none after it was removed."""
    guest = plugged(mortal_hosts[0])
    for port in opened(real_time, mortal_hosts, "qemu", ("network", "disk")):
        assert in_force(port) == {"network": UNSET, "disk": UNSET}
        port.apply(Throttle(period=1, vm=VM, reason="", disk_kib_s=DISK_KIB_S))
        assert guest.domain.blockIoTune("vda")["total_bytes_sec"] == DISK_KIB_S * 1024
        assert guest.domain.blockIoTune("hda")["total_bytes_sec"] == 1 << 20
        assert in_force(port) == {"network": UNSET, "disk": DISK_KIB_S}
        release(real_time, port)
        for device in ("vda", "hda"):
            assert guest.domain.blockIoTune(device)["total_bytes_sec"] == 0


def test_a_disks_limit_is_what_is_really_got(
    real_time: RealTime, mortal_hosts: list[RealHost]
) -> None:
    """Reads and writes together are at most 5 % above the limit and 10 % below; freed, far more."""
    guest = boot(mortal_hosts[0], VM, vcpus=1, burn=0, disk_mib=64)
    for port in opened(real_time, mortal_hosts, "qemu", ("disk",)):
        port.read({VM: 0})
        for limit_kib_s in LIMITS_KIB_S:
            port.apply(Throttle(period=1, vm=VM, reason="", disk_kib_s=limit_kib_s))
            got = copied_kib_s(guest)
            assert got.within(limit_kib_s * BELOW, limit_kib_s * ABOVE), got
        release(real_time, port, 192)
        got = copied_kib_s(guest)
        assert got.within(2 * max(LIMITS_KIB_S), math.inf), got


def copied_kib_s(guest: Guest) -> Got:
    """Return the measured reads and writes of the guest."""
    time.sleep(SETTLING_S)
    return measured(lambda: guest.disk_bytes / 1024, WINDOW_S)


def test_the_networks_limit_stands_and_goes(
    real_time: RealTime, mortal_hosts: list[RealHost]
) -> None:
    """Each interface has half of the limit in each direction, as `virsh domiftune` shows."""
    parts = ", ".join(lacking())
    if parts:
        pytest.skip(f"this kernel lacks what libvirt limits interfaces with: {parts}")
    guest = plugged(mortal_hosts[0])
    for port in opened(real_time, mortal_hosts, "qemu", ("network", "disk")):
        port.read({VM: 0})
        port.apply(Throttle(period=1, vm=VM, reason="", network_kb_s=NETWORK_KB_S))
        for nic in map(guest.domain.interfaceParameters, NICS):
            assert nic["inbound.average"] == nic["outbound.average"] == NETWORK_KB_S // 2
        assert in_force(port) == {"network": NETWORK_KB_S, "disk": UNSET}
        release(real_time, port)
        for nic in map(guest.domain.interfaceParameters, NICS):
            assert nic["inbound.average"] == nic["outbound.average"] == 0


def test_an_incapable_kernel_is_named_and_disks_are_limited(
    real_time: RealTime, mortal_hosts: list[RealHost]
) -> None:
    """The refusal names the missing part of the kernel; disks are limited all the same."""
    if not lacking():
        pytest.skip("this kernel can limit interfaces")
    plugged(mortal_hosts[0])
    for port in opened(real_time, mortal_hosts, "qemu", ("network", "disk")):
        port.read({VM: 0})
        step = Throttle(
            period=1, vm=VM, reason="", network_kb_s=NETWORK_KB_S, disk_kib_s=DISK_KIB_S
        )
        (why,) = port.refused(step).values()
        assert "tc qdisc add" in why
        assert in_force(port)["disk"] == DISK_KIB_S
