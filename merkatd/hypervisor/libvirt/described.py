"""What libvirt's XML says of a domain and of a host, as far as limits are concerned."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import NamedTuple, TypeVar

from lxml import etree

from merkatd.hypervisor.libvirt.errors import RefusedError
from merkatd.limits import Topology

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
            raise RefusedError(f"its description can't be read: {error}") from error

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


class Rates(NamedTuple):
    """The limits of an interface in kB/s; 0 for none."""

    inbound: int = 0
    outbound: int = 0


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a running domain that can be limited, and to what they are."""

    nics: Mapping[str, Rates]
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
            nics[name] = Rates(_average(nic, "inbound"), _average(nic, "outbound"))
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
