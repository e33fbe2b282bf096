"""Guests on real hosts: started as OpenNebula would start them, and measured from outside."""

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import libvirt

from merkatd.demo.demo_options import GuestKind
from merkatd.demo.guest_domains import described, disk
from tests.real import guest
from tests.real.host import RealHost, until
from tests.real.measuring import Got, measured

NS_PER_S = 1e9
BURNT_S = 0.2
KIB_PER_MIB = 1024

_QEMU = """\
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>{memory_mib}</memory>
  <vcpu>{vcpus}</vcpu>
  <cputune><shares>{shares}</shares></cputune>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>{kernel}</kernel>
    <initrd>{initrd}</initrd>
    <cmdline>console=ttyS0 quiet mitigations=off {words}</cmdline>
  </os>
  <features><acpi/></features>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <serial type='file'><source path='{console}'/></serial>
    <memballoon model='virtio'><stats period='1'/></memballoon>
    {devices}
  </devices>
</domain>
"""
_DISK = """\
<disk type='file' device='disk'>
  <driver name='qemu' type='raw'/><source file='{path}'/><target dev='vda' bus='virtio'/>
</disk>
"""
_LXC = """\
<domain type='lxc'>
  <name>{name}</name>
  <memory unit='MiB'>{memory_mib}</memory>
  <vcpu>{vcpus}</vcpu>
  <cputune><shares>{shares}</shares></cputune>
  <os><type>exe</type><init>/bin/sh</init><initarg>-c</initarg><initarg>{words}</initarg></os>
  <devices><emulator>/usr/lib/libvirt/libvirt_lxc</emulator><console type='pty'/></devices>
</domain>
"""


class Guest:
    """The domain one-N, on the host where it is now."""

    def __init__(self, host: RealHost, vm: int, driver: str = "qemu") -> None:
        self.vm = vm
        self.host = host
        self.driver = driver
        self.name = f"one-{vm}"

    @property
    def domain(self) -> Any:
        """Return libvirt's handle. Raise libvirtError if the host does not know the guest."""
        return self.host.connection(self.driver).lookupByName(self.name)

    @property
    def cpu_s(self) -> float:
        """Return the CPU time since the start."""
        return float(self.domain.info()[4]) / NS_PER_S

    @property
    def vcpu_s(self) -> float:
        """Return the CPU time of the virtual CPUs alone, without that of QEMU's other threads."""
        return sum(float(vcpu[2]) for vcpu in self.domain.vcpus()[0]) / NS_PER_S

    @property
    def scheduling(self) -> dict[str, int]:
        """Return the shares and quotas that the host has set."""
        return dict(self.domain.schedulerParameters())

    def quota_us(self) -> int | None:
        """Return the quota of each virtual CPU; None while a restarted host can't read it."""
        try:
            return self.scheduling["vcpu_quota"]
        except libvirt.libvirtError:
            return None

    @property
    def disk_bytes(self) -> int:
        """Return the bytes read and written since the start, as QEMU counts them."""
        _, read, _, written, _ = self.domain.blockStats("vda")
        return int(read) + int(written)

    @property
    def balloon_mib(self) -> int:
        """Return the memory that the guest has."""
        return int(self.domain.info()[2]) // KIB_PER_MIB

    def got(self, seconds: float) -> Got:
        """Return the cores that the guest uses, with the precision of the measurement."""
        return measured(lambda: self.cpu_s, seconds)

    def cores_used(self, seconds: float) -> float:
        """Return the number of cores that the guest uses, measured over this time."""
        (cores,) = cores_used([self], seconds)
        return cores

    def threads(self) -> dict[str, set[int]]:
        """Return the cores that each thread may use, by the thread's name, from the kernel.

        Return an empty mapping while the guest migrates, when two processes have its name or one is
        ending.
        """
        cores_by_thread = {}
        processes = self._processes()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{processes[0]}/task").iterdir() if len(processes) == 1 else ():
                status = dict(
                    line.split(":\t", maxsplit=1)
                    for line in (task / "status").read_text().splitlines()
                    if ":\t" in line
                )
                cores_by_thread[status["Name"]] = _cores(status["Cpus_allowed_list"])
        return cores_by_thread

    def _processes(self) -> list[int]:
        # Ids from inside the hosts' namespaces are not valid here.
        wanted = f"guest={self.name},".encode()
        pids = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if wanted in path.read_bytes():
                    pids.append(int(path.parent.name))
        return pids

    def migrate(self, target: RealHost) -> None:
        """Migrate the guest live."""
        self.domain.migrate3(target.connection(self.driver), {}, libvirt.VIR_MIGRATE_LIVE)
        self.host = target

    def destroy(self) -> None:
        """End the guest at once."""
        self.domain.destroy()


def boot(
    host: RealHost,
    vm: int,
    *,
    vcpus: int = 2,
    memory_mib: int = 192,
    burn: int | None = None,
    eat_mib: int = 0,
    disk_mib: int = 0,
) -> Guest:
    """Start a guest under software emulation, and wait until it reports that it is up.

    The guest burns CPU on all its virtual CPUs, or on `burn` of them, and fills some memory. If it
    has a disk, it reads and writes it all the time.
    """
    console = _console(host.directory, vm)
    words = f"burn={vcpus if burn is None else burn}" + (f" eat={eat_mib}" if eat_mib else "")
    devices = ""
    if disk_mib:
        words += " copy=1"
        path = host.directory / f"one-{vm}.disk"
        path.write_bytes(b"")
        os.truncate(path, disk_mib << 20)
        devices = _DISK.format(path=path)
    text = machine_xml(host.directory, vm, vcpus, memory_mib, words, devices)
    host.connection().createXML(text, 0)
    until(lambda: _shows(console, guest.READY), f"one-{vm} is up", patience_s=180.0)
    assert "GUEST-FAILED" not in console.read_text(), console.read_text()
    return Guest(host, vm)


def burner(host: RealHost, vm: int, *, vcpus: int = 1) -> Guest:
    """Start a guest without an operating system or a balloon, which burns CPU at once."""
    path = host.directory / "disk"
    path.write_bytes(disk())
    host.connection().createXML(described(GuestKind.QEMU, vm, vcpus, 32, str(path)), 0)
    guest = Guest(host, vm)

    def burns() -> bool:
        return all(state[2] > BURNT_S * NS_PER_S for state in guest.domain.vcpus()[0])

    until(burns, f"one-{vm} burns on all virtual CPUs")
    return guest


def machine_xml(
    directory: Path, vm: int, vcpus: int, memory_mib: int, words: str, devices: str = ""
) -> str:
    """Return the XML of a domain that boots the guest; its console is a file in the directory."""
    image = guest.built()
    console = _console(directory, vm)
    console.unlink(missing_ok=True)
    return _QEMU.format(
        name=f"one-{vm}",
        memory_mib=memory_mib,
        vcpus=vcpus,
        shares=vcpus * 1024,
        kernel=image.kernel,
        initrd=image.initrd,
        words=words,
        console=console,
        devices=devices,
    )


def contain(host: RealHost, vm: int, *, vcpus: int = 2, memory_mib: int = 64) -> Guest:
    """Start a container that burns as much CPU as it has virtual CPUs."""
    loops = "while :; do :; done &amp; " * vcpus
    text = _LXC.format(
        name=f"one-{vm}",
        memory_mib=memory_mib,
        vcpus=vcpus,
        shares=vcpus * 1024,
        words=f"{loops} wait",
    )
    host.connection("lxc").createXML(text, 0)
    return Guest(host, vm, "lxc")


def cores_used(guests: list[Guest], seconds: float) -> list[float]:
    """Return the number of cores that each guest uses, all measured over the same time."""
    began_s, before = time.monotonic(), [guest.cpu_s for guest in guests]
    time.sleep(seconds)
    after, ended_s = [guest.cpu_s for guest in guests], time.monotonic()
    passed_s = ended_s - began_s
    return [(last - first) / passed_s for first, last in zip(before, after, strict=True)]


def _console(directory: Path, vm: int) -> Path:
    return directory / f"one-{vm}.console"


def _shows(console: Path, text: str) -> bool:
    return console.exists() and text in console.read_text(errors="replace")


def _cores(text: str) -> set[int]:
    cores: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores |= set(range(int(first), int(last or first) + 1))
    return cores
