"""A guest as it is known, and what libvirt's XML says of it and of its host."""

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
class Described:
    """A domain, as it is running."""

    vcpus: int = 1
    balloon: bool = False
    """Whether it has a balloon that a driver inside could move."""
    stats_period_s: int = 0
    """How often it tells its use of memory; 0: never."""


def _readable(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return the same reader, which raises RefusedError for XML that makes no sense."""

    @wraps(read)
    def reader(xml: str) -> T:
        try:
            return read(xml)
        except (ValueError, etree.XMLSyntaxError) as error:
            raise LibvirtRefusedError(f"its description can't be read: {error}") from error

    return reader


@_readable
def described(xml: str) -> Described:
    """What a domain's XML says. Raises RefusedError where it can't be read."""
    root = etree.fromstring(xml.encode())
    vcpu = root.find("vcpu")
    balloon = root.find("devices/memballoon")
    stats = None if balloon is None else balloon.find("stats")
    count = "1" if vcpu is None else vcpu.get("current") or vcpu.text or "1"
    return Described(
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
    """The devices of a running domain that can be limited, and to what they are."""

    nics: Mapping[str, DeviceRates]
    """By the name of the interface on the host."""
    disks: Mapping[str, int]
    """By the name of the disk in the domain: bytes/s, read and written together; 0 for none."""


_SHAPED = frozenset({"bridge", "network", "direct", "ethernet"})
"""Kinds of interfaces that the kernel can limit; others have no end on the host."""
_WRITABLE = frozenset({"disk", "lun"})


@_readable
def devices_in(xml: str) -> Devices:
    """What a domain's XML says of its interfaces and disks. Raises RefusedError likewise."""
    root = etree.fromstring(xml.encode())
    nics, disks = {}, {}
    for nic in root.iterfind("devices/interface"):
        name = _target(nic)
        if name and nic.get("type") in _SHAPED:
            nics[name] = DeviceRates(_average(nic, "inbound"), _average(nic, "outbound"))
    for disk in root.iterfind("devices/disk"):
        name = _target(disk)
        if name and disk.get("device", "disk") in _WRITABLE:
            disks[name] = int(disk.findtext("iotune/total_bytes_sec") or 0)
    return Devices(nics, disks)


def _target(device: etree._Element) -> str:
    target = device.find("target")
    return "" if target is None else target.get("dev") or ""


def _average(nic: etree._Element, way: str) -> int:
    there = nic.find(f"bandwidth/{way}")
    return 0 if there is None else int(there.get("average") or 0)


def topology_in(xml: str, reserved: frozenset[int]) -> Topology | None:
    """The cores that a host's capabilities name; None where they name none."""
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
"""Limits under the names that a host has for them."""
_FOLLOWS_WITHIN_S = 30.0
_STATS_OLD_AFTER_S = 60.0
_NEAR_MIB = 16


class Cpu(NamedTuple):
    """A CPU limit in the words of a Limit step; UNSET where there is none."""

    vcpu_quota_us: int = UNSET
    global_quota_us: int = UNSET
    shares: int = UNSET


class GuestReading(NamedTuple):
    """A guest as its host showed it."""

    vm: int
    domain: Any
    cpu_s: float
    held_kib: float
    most_kib: float
    used_kib: float
    """NaN where nobody says."""
    told_at: int = 0
    """When the guest last told its use, on its own host's clock; 0: never."""
    free: bool = True
    """Whether all was told that is told only where nobody else is at work on the guest."""


def vm_of(name: str) -> int | None:
    """The VM that a domain is; None where it is none of OpenNebula's."""
    number = name.removeprefix(PREFIX)
    if number == name or not (number.isascii() and number.isdigit()):
        return None
    return int(number)


@dataclass
class Guest:
    """One run of one VM on one host: it starts anew with the domain's id."""

    vm: int
    domain: Any
    opening: int
    run: int
    """The domain's id: another one after every start."""
    sight: GuestReading
    described: Described | None = None
    words: Words | None = None
    """What the host enforces, None as long as nobody knows."""
    asked: Cpu | None = None
    """What was asked for when these words were set."""
    cores: Cores | None = None
    """Where it is pinned, None as long as nobody knows."""
    emulator: tuple[int, ...] | None = None
    """The cores of its other threads: empty means all cores, None means not yet known."""
    devices: Devices | None = None
    """Its interfaces and disks with their limits, None as long as nobody looked."""
    checked: int | None = None
    """The period in which its limits were last read back."""
    trouble: str = ""
    """Why it could not be looked at, the last time that it could not."""
    held_up: bool = False
    """Somebody's work on it let a call wait in vain, and was not over when last asked."""
    told_mib: int = UNSET
    _moved_s: float = -np.inf
    """When its balloon was last seen to move, or told something."""
    _followed: bool = False
    """It was seen to hold what it was told."""
    _stats_s: float = -np.inf
    _looks: int = 0

    @property
    def name(self) -> str:
        """As OpenNebula names its domains."""
        return f"{PREFIX}{self.vm}"

    @property
    def vcpus(self) -> int:
        """How many virtual CPUs it has."""
        return 1 if self.described is None else max(self.described.vcpus, 1)

    @property
    def held_mib(self) -> float:
        """What it holds."""
        return self.sight.held_kib / KIB_PER_MIB

    def see(self, sight: GuestReading, opening: int, now_s: float) -> None:
        """Take note of how it is now."""
        if sight.told_at != self.sight.told_at or self._looks == 0:
            self._stats_s = now_s
        self._looks += 1
        if abs(sight.held_kib - self.sight.held_kib) >= KIB_PER_MIB:
            self._moved_s = now_s
        self.sight, self.domain, self.opening = sight, sight.domain, opening

    def tell(self, memory_mib: int, now_s: float) -> None:
        """Take note of what its balloon was told."""
        self.told_mib, self._moved_s, self._followed = memory_mib, now_s, False

    def strayed(self) -> bool:
        """Whether it holds something else by now than what it was told and had come to hold.

        Somebody else told it, or it was rebooted: what it was told then counts no longer.
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
        """Whether it is pinned and its other threads are not on the cores reserved for them."""
        known = self.emulator is not None
        return known and any(self.cores or ()) and bool(reserved) and self.emulator != reserved

    def used_mib(self, now_s: float) -> float:
        """What it uses of what it holds; NaN where it does not tell, or no longer does."""
        if self.sight.told_at and now_s - self._stats_s > _STATS_OLD_AFTER_S:
            return np.nan
        return self.sight.used_kib / KIB_PER_MIB

    def follows(self, now_s: float) -> bool:
        """Whether what it holds goes where its balloon was told, or was told nothing yet."""
        if self.told_mib == UNSET or abs(self.held_mib - self.told_mib) <= _NEAR_MIB:
            return True
        return now_s - self._moved_s <= _FOLLOWS_WITHIN_S
