"""The known state of a guest, and readers of libvirt's XML of guests and hosts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from lxml import etree

from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtRefusedError
from merkatd.limits import UNSET, Cores, Topology

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """The facts about a running domain."""

    vcpus: int = 1
    balloon: bool = False
    """Whether it has a balloon device, which a driver inside the guest could move."""
    stats_period_s: int = 0
    """The interval at which it reports its use of memory; 0: never."""


def _readable(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader that raises LibvirtRefusedError for invalid XML."""

    @wraps(read)
    def reader(xml: str) -> T:
        try:
            return read(xml)
        except (ValueError, etree.XMLSyntaxError) as error:
            raise LibvirtRefusedError(f"its domain XML can't be read: {error}") from error

    return reader


@_readable
def described(xml: str) -> DomainFacts:
    """Return the facts in a domain's XML. Raise LibvirtRefusedError if it is invalid."""
    root = etree.fromstring(xml.encode())
    vcpu = root.find("vcpu")
    balloon = root.find("devices/memballoon")
    stats = None if balloon is None else balloon.find("stats")
    count = "1" if vcpu is None else vcpu.get("current") or vcpu.text or "1"
    return DomainFacts(
        vcpus=int(count),
        balloon=balloon is not None and balloon.get("model") != "none",
        stats_period_s=0 if stats is None else int(stats.get("period") or 0),
    )


class DeviceRates(NamedTuple):
    """The limits of an interface in kB/s; 0 for none."""

    inbound: int = 0
    outbound: int = 0


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a running domain that can be limited, with their limits."""

    nics: Mapping[str, DeviceRates]
    """The interfaces' limits by the name of the interface on the host."""
    disks: Mapping[str, int]
    """The disks' limits by name in the domain: bytes/s, reads plus writes; 0 for none."""
    cdroms: Mapping[str, int]
    """The same for CD-ROMs with a medium (Note [CD-ROMs] in `device_limits.py`)."""


_SHAPED = frozenset({"bridge", "network", "direct", "ethernet"})
"""The types of interfaces that the kernel can limit; others have no device on the host."""
_WRITABLE = frozenset({"disk", "lun"})


@_readable
def devices_in(xml: str) -> Devices:
    """Return the devices in a domain's XML. Raise LibvirtRefusedError if it is invalid."""
    root = etree.fromstring(xml.encode())
    nics, disks, cdroms = {}, {}, {}
    for nic in root.iterfind("devices/interface"):
        name = _target(nic)
        if name and nic.get("type") in _SHAPED:
            nics[name] = DeviceRates(_average(nic, "inbound"), _average(nic, "outbound"))
    for disk in root.iterfind("devices/disk"):
        name, kind = _target(disk), disk.get("device", "disk")
        limit = int(disk.findtext("iotune/total_bytes_sec") or 0)
        if name and kind in _WRITABLE:
            disks[name] = limit
        elif name and kind == "cdrom" and disk.find("source") is not None:
            cdroms[name] = limit
    return Devices(nics, disks, cdroms)


def _target(device: etree._Element) -> str:
    target = device.find("target")
    return "" if target is None else target.get("dev") or ""


def _average(nic: etree._Element, way: str) -> int:
    there = nic.find(f"bandwidth/{way}")
    return 0 if there is None else int(there.get("average") or 0)


def topology_in(xml: str, reserved: frozenset[int]) -> Topology | None:
    """Return the cores in a host's capabilities; None if they name no cores."""
    root = etree.fromstring(xml.encode())
    cells = {
        int(cpu.get("id") or 0): int(cell.get("id") or 0)
        for cell in root.iterfind("host/topology/cells/cell")
        for cpu in cell.iterfind("cpus/cpu")
    }
    return Topology(cells, frozenset(reserved & cells.keys())) if cells else None


KIB_PER_MIB = 1024
PREFIX = "one-"
Words = Mapping[str, int]
"""Limits by the host's names for them."""
_FOLLOWS_WITHIN_S = 30.0
_STATS_OLD_AFTER_S = 60.0
_NEAR_MIB = 16


class Cpu(NamedTuple):
    """A CPU limit with the fields of a Limit step; UNSET for none."""

    vcpu_quota_us: int = UNSET
    global_quota_us: int = UNSET
    shares: int = UNSET


class GuestReading(NamedTuple):
    """A guest's state as its host reported it."""

    vm: int
    domain: Any
    cpu_s: float
    held_kib: float
    most_kib: float
    used_kib: float
    """NaN if the use is unknown."""
    told_at: int = 0
    """The time of the guest's last report of its use, on its own host's clock; 0: never."""
    free: bool = True
    """Whether no job runs on the guest: libvirt also returned the values that a job blocks."""
    dirty_mib_s: float = np.nan
    """The rate at which it writes to its memory, by the last measurement; NaN before the first."""
    measuring: bool = False
    """Whether this rate is being measured."""


def vm_of(name: str) -> int | None:
    """Return the VM id of a domain's name; None for a domain outside OpenNebula."""
    number = name.removeprefix(PREFIX)
    if number == name or not (number.isascii() and number.isdigit()):
        return None
    return int(number)


@dataclass
class Guest:
    """One run of one VM on one host: a new domain id means a new run."""

    vm: int
    domain: Any
    opening: int
    run: int
    """The domain's id: it changes with every start."""
    sight: GuestReading
    described: DomainFacts | None = None
    words: Words | None = None
    """The CPU limits that the host enforces; None while unknown."""
    asked: Cpu | None = None
    """The limit step that these CPU limits come from; None if another program set them."""
    cores: Cores | None = None
    """The cores of its virtual CPUs; None while unknown."""
    emulator: tuple[int, ...] | None = None
    """The cores of its emulator threads: empty means all cores, None means not yet known."""
    devices: Devices | None = None
    """Its interfaces and disks with their limits; None while unread."""
    checked: int | None = None
    """The number of the period in which its limits were last read back."""
    trouble: str = ""
    """The reason of the last failure to read it."""
    held_up: bool = False
    """Whether a job on it blocked a call, and was still running when last checked."""
    told_mib: int = UNSET
    _moved_s: float = -np.inf
    """The time when its balloon last moved or was set."""
    _followed: bool = False
    """Whether it has reached the memory size that was set."""
    _stats_s: float = -np.inf
    _looks: int = 0

    @property
    def name(self) -> str:
        """The domain's name, as OpenNebula builds it."""
        return f"{PREFIX}{self.vm}"

    @property
    def vcpus(self) -> int:
        """The number of its virtual CPUs."""
        return 1 if self.described is None else max(self.described.vcpus, 1)

    @property
    def held_mib(self) -> float:
        """The memory that it holds."""
        return self.sight.held_kib / KIB_PER_MIB

    def see(self, sight: GuestReading, opening: int, now_s: float) -> None:
        """Store a new reading."""
        if sight.told_at != self.sight.told_at or self._looks == 0:
            self._stats_s = now_s
        self._looks += 1
        if abs(sight.held_kib - self.sight.held_kib) >= KIB_PER_MIB:
            self._moved_s = now_s
        self.sight, self.domain, self.opening = sight, sight.domain, opening

    def tell(self, memory_mib: int, now_s: float) -> None:
        """Store the size that its balloon was set to."""
        self.told_mib, self._moved_s, self._followed = memory_mib, now_s, False

    def strayed(self) -> bool:
        """Return whether its memory has left the size that was set and that it had reached.

        Another program set the balloon, or the guest was rebooted: the size set before is dropped.
        """
        if self.told_mib == UNSET:
            return False
        near = abs(self.held_mib - self.told_mib) <= _NEAR_MIB
        if near or not self._followed:
            self._followed = self._followed or near
            return False
        self.told_mib, self._followed = UNSET, False
        return True

    def emulator_off(self, reserved: tuple[int, ...]) -> bool:
        """Return whether it is pinned but its emulator threads are off their reserved cores."""
        known = self.emulator is not None
        return known and any(self.cores or ()) and bool(reserved) and self.emulator != reserved

    def used_mib(self, now_s: float) -> float:
        """Return its use of memory; NaN if it does not report it, or no longer does."""
        if self.sight.told_at and now_s - self._stats_s > _STATS_OLD_AFTER_S:
            return np.nan
        return self.sight.used_kib / KIB_PER_MIB

    def follows(self, now_s: float) -> bool:
        """Return whether its memory follows its balloon, or its balloon was never set."""
        if self.told_mib == UNSET or abs(self.held_mib - self.told_mib) <= _NEAR_MIB:
            return True
        return now_s - self._moved_s <= _FOLLOWS_WITHIN_S
