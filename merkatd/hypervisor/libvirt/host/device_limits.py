"""Limits of interfaces and disks: a VM's limit is divided evenly among its devices.

Read off the running domain's XML, in one call however many devices there are; set device by
device, where one differs. libvirt does that for QEMU guests alone.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from merkatd.cluster import Throttle
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.driver import GuestDriver
from merkatd.hypervisor.libvirt.host.guest import DeviceRates, Devices, Guest, devices_in
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtRefusedError
from merkatd.limits import BEYOND, UNSET

_BYTES_PER_KIB = 1024
_NONE = DeviceRates()


class Allowed(NamedTuple):
    """What a VM's devices together may do; UNSET where one of them is free to do anything."""

    network_kb_s: int = BEYOND
    disk_kib_s: int = BEYOND


def read_devices(host: HostConnection, driver: GuestDriver, guest: Guest) -> Devices:
    """Those that can be limited, as they are."""
    if not driver.throttles:
        return Devices({}, {})
    return devices_in(host.call(host.handle(guest).XMLDesc, 0))


def allowed(devices: Devices | None) -> Allowed:
    """What the limits in force come to; nothing can be said of devices that nobody looked at."""
    if devices is None:
        return Allowed()
    network = [min(nic) if nic.inbound == nic.outbound else 0 for nic in devices.nics.values()]
    disk = list(devices.disks.values())
    return Allowed(_together(network), _together(disk, _BYTES_PER_KIB))


def _together(limits: list[int], unit: int = 1) -> int:
    if not limits:
        return BEYOND
    return max(sum(limits) // unit, 1) if all(limits) else UNSET


def changed(there: Devices, known: Devices | None) -> Iterator[tuple[str, object, object]]:
    """Limits that somebody else has changed: of which device, what it is, and what it was."""
    if known is None:
        return
    pairs: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
        (there.nics, known.nics),
        (there.disks, known.disks),
    )
    for now, before in pairs:
        for name in sorted(now.keys() & before.keys()):
            if now[name] != before[name]:
                yield name, now[name], before[name]


def throttle(host: HostConnection, driver: GuestDriver, guest: Guest, step: Throttle) -> None:
    """Every device whose limit differs; a host that can't limit networks still limits disks.

    Raises RefusedError where there is nothing to limit.
    """
    devices = guest.devices or read_devices(host, driver, guest)
    # Until it has worked nobody knows what there is.
    guest.devices = None
    nics, disks = devices.nics, devices.disks
    try:
        if step.network_kb_s is not None:
            part = _part(step.network_kb_s, len(nics), "interface")
            nics = _set_nics(host, guest, nics, DeviceRates(part, part))
    finally:
        if step.disk_kib_s is not None:
            part = _part(step.disk_kib_s * _BYTES_PER_KIB, len(disks), "disk")
            disks = _set_disks(host, guest, disks, part)
    guest.devices = Devices(nics, disks)


def unthrottle(
    host: HostConnection, driver: GuestDriver, guest: Guest, goods: tuple[str, ...]
) -> None:
    """No limits at all on what these goods are about."""
    guest.devices = None
    devices = read_devices(host, driver, guest)
    if "network" in goods:
        _set_nics(host, guest, devices.nics, _NONE)
    if "disk" in goods:
        _set_disks(host, guest, devices.disks, 0)


def _part(limit: int, devices: int, what: str) -> int:
    if not devices:
        raise LibvirtRefusedError(f"it has no {what} that can be limited")
    return max(limit // devices, 1)


def _set_nics(
    host: HostConnection, guest: Guest, there: Mapping[str, DeviceRates], wanted: DeviceRates
) -> Mapping[str, DeviceRates]:
    live = libvirt_module.needed().VIR_DOMAIN_AFFECT_LIVE
    words = {"inbound.average": wanted.inbound, "outbound.average": wanted.outbound}
    for name in (name for name, limits in there.items() if limits != wanted):
        host.call(host.handle(guest).setInterfaceParameters, name, dict(words), live)
    return dict.fromkeys(there, wanted)


def _set_disks(
    host: HostConnection, guest: Guest, there: Mapping[str, int], wanted: int
) -> Mapping[str, int]:
    live = libvirt_module.needed().VIR_DOMAIN_AFFECT_LIVE
    for name in (name for name, limit in there.items() if limit != wanted):
        host.call(host.handle(guest).setBlockIoTune, name, {"total_bytes_sec": wanted}, live)
    return dict.fromkeys(there, wanted)
