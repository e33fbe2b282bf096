"""Network and disk limits stand in a real guest's domain, and go again."""

import subprocess

import pytest

from merkatd.cluster import Throttle
from merkatd.demo.domains import Kind, described, disk
from merkatd.limits import UNSET
from merkatd.scheduler.ports import Whole
from tests.opennebula.worlds import RealTime
from tests.real.domains import Guest
from tests.real.host import RealHost
from tests.real.port import Port, opened

VM = 4
NICS = ("one-4-0", "one-4-1")
NETWORK_KB_S, DISK_KIB_S = 25_000, 4096


def plugged(host: RealHost) -> Guest:
    """A guest with two taps and a disk."""
    path = host.directory / "disk"
    path.write_bytes(disk())
    taps = "".join(f"<interface type='ethernet'><target dev='{nic}'/></interface>" for nic in NICS)
    text = described(Kind.QEMU, VM, 1, 32, str(path)).replace("</devices>", f"{taps}</devices>")
    host.connection().createXML(text, 0)
    return Guest(host, VM)


def shapes() -> bool:
    """Whether this kernel has all that libvirt limits interfaces with."""
    made = subprocess.run(
        ["/usr/sbin/tc", "qdisc", "add", "dev", "lo", "root", "sfq"],
        capture_output=True,
        check=False,
    )
    subprocess.run(
        ["/usr/sbin/tc", "qdisc", "del", "dev", "lo", "root"], capture_output=True, check=False
    )
    return made.returncode == 0


def in_force(port: Port) -> dict[str, int]:
    """As the adapter reads it."""
    further = port.read({VM: 0}).in_force.further
    return {name: int(column[0]) for name, column in further.items()}


def release(real_time: RealTime, port: Port) -> None:
    """The guest has its full size back."""
    whole = Whole(vm=VM, host=0, cpu_units=100.0, memory_mib=32, vcpus=1)
    did = real_time.run(port.hypervisors.release([whole]))
    assert did[VM].problem == ""


def test_a_disks_limit_stands_and_goes(real_time: RealTime, mortal_hosts: list[RealHost]) -> None:
    """As `virsh blkdeviotune` shows it."""
    guest = plugged(mortal_hosts[0])
    for port in opened(real_time, mortal_hosts, "qemu", ("network", "disk")):
        assert in_force(port) == {"network": UNSET, "disk": UNSET}
        port.apply(Throttle(period=1, vm=VM, reason="", disk_kib_s=DISK_KIB_S))
        assert guest.domain.blockIoTune("vda")["total_bytes_sec"] == DISK_KIB_S * 1024
        assert in_force(port) == {"network": UNSET, "disk": DISK_KIB_S}
        release(real_time, port)
        assert guest.domain.blockIoTune("vda")["total_bytes_sec"] == 0


def test_the_networks_limit_stands_and_goes(
    real_time: RealTime, mortal_hosts: list[RealHost]
) -> None:
    """Half of it for each interface, both ways, as `virsh domiftune` shows it."""
    if not shapes():
        pytest.skip("this kernel has no sch_sfq, without which libvirt limits no interface")
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


def test_a_kernel_that_can_not_is_named_and_disks_are_limited(
    real_time: RealTime, mortal_hosts: list[RealHost]
) -> None:
    """The refusal says what is missing."""
    if shapes():
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
