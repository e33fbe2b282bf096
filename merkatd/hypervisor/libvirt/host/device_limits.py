"""Limits of interfaces and disks: a VM's limit is divided evenly among its devices.

One call for the running domain's XML reads the limits of all devices. Limits are set with one call
per device that differs. libvirt supports this for QEMU guests only.

# Note [CD-ROMs]

Owners can attach CD-ROMs of any size, and a guest that reads one uses the host's disks. Nearly
every VM has one, its context, which it reads once. If that counted as a disk, a VM with one disk
could use only half of its limit there, and libvirt does not show which CD-ROM is the context. So a
VM's only CD-ROM has a small limit of its own, a twentieth of the VM's, and at least a MiB/s:
otherwise a guest with a small limit would boot slowly. Several CD-ROMs count as disks.
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
_CDROM_PART = 20
"""Divisor of the VM's limit that gives the limit of its only CD-ROM."""
_CDROM_LEAST = 1 << 20
"""The least limit of the only CD-ROM, in bytes/s."""
_NONE = DeviceRates()


class AllowedRates(NamedTuple):
    """The limits of a VM's devices together; UNSET if a device is unlimited."""

    network_kb_s: int = BEYOND
    disk_kib_s: int = BEYOND


def read_devices(host: HostConnection, driver: GuestDriver, guest: Guest) -> Devices:
    """Return the devices that can be limited, with their limits."""
    if not driver.throttles:
        return Devices({}, {}, {})
    return devices_in(host.call(host.handle(guest).XMLDesc, 0))


def allowed(devices: Devices | None) -> AllowedRates:
    """Return the sums of the limits in force; BEYOND if the devices are unread."""
    if devices is None:
        return AllowedRates()
    network = [min(nic) if nic.inbound == nic.outbound else 0 for nic in devices.nics.values()]
    return AllowedRates(_together(network), _disk_kib_s(devices))


def _disk_kib_s(devices: Devices) -> int:
    disks, cdroms = list(devices.disks.values()), list(devices.cdroms.values())
    if len(cdroms) > 1:
        disks += cdroms
    elif disks and not all(cdroms):
        return UNSET
    return _together(disks, _BYTES_PER_KIB)


def _together(limits: list[int], unit: int = 1) -> int:
    if not limits:
        return BEYOND
    return max(sum(limits) // unit, 1) if all(limits) else UNSET


def changed(there: Devices, known: Devices | None) -> Iterator[tuple[str, object, object]]:
    """Yield limits that another program changed: device, present limit, known limit."""
    if known is None:
        return
    pairs: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
        (there.nics, known.nics),
        (there.disks, known.disks),
        (there.cdroms, known.cdroms),
    )
    for now, before in pairs:
        for name in sorted(now.keys() & before.keys()):
            if now[name] != before[name]:
                yield name, now[name], before[name]


def throttle(host: HostConnection, driver: GuestDriver, guest: Guest, step: Throttle) -> None:
    """Set the limit of every device that differs; disks even if the interfaces fail.

    Raise LibvirtRefusedError if the VM has no such device.
    """
    devices = guest.devices or read_devices(host, driver, guest)
    # The limits in force are unknown until the calls have succeeded.
    guest.devices = None
    nics, disks, cdroms = devices.nics, devices.disks, devices.cdroms
    try:
        if step.network_kb_s is not None:
            part = _part(step.network_kb_s, len(nics), "interface")
            nics = _set_nics(host, guest, nics, DeviceRates(part, part))
    finally:
        if step.disk_kib_s is not None:
            limit = step.disk_kib_s * _BYTES_PER_KIB
            several = len(cdroms) > 1
            part = _part(limit, len(disks) + (len(cdroms) if several else 0), "disk")
            alone = part if several else max(limit // _CDROM_PART, _CDROM_LEAST)
            disks = _set_disks(host, guest, disks, part)
            cdroms = _set_disks(host, guest, cdroms, alone)
    guest.devices = Devices(nics, disks, cdroms)


def unthrottle(
    host: HostConnection, driver: GuestDriver, guest: Guest, goods: tuple[str, ...]
) -> None:
    """Remove the limits on the devices of these goods."""
    guest.devices = None
    devices = read_devices(host, driver, guest)
    if "network" in goods:
        _set_nics(host, guest, devices.nics, _NONE)
    if "disk" in goods:
        _set_disks(host, guest, {**devices.disks, **devices.cdroms}, 0)


def _part(limit: int, devices: int, what: str) -> int:
    if not devices:
        raise LibvirtRefusedError(f"it has no {what} that can be limited")
    return max(limit // devices, 1)


def _set_nics(
    host: HostConnection, guest: Guest, there: Mapping[str, DeviceRates], wanted: DeviceRates
) -> Mapping[str, DeviceRates]:
    live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
    words = {"inbound.average": wanted.inbound, "outbound.average": wanted.outbound}
    for name in (name for name, limits in there.items() if limits != wanted):
        host.call(host.handle(guest).setInterfaceParameters, name, dict(words), live)
    return dict.fromkeys(there, wanted)


def _set_disks(
    host: HostConnection, guest: Guest, there: Mapping[str, int], wanted: int
) -> Mapping[str, int]:
    live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
    for name in (name for name, limit in there.items() if limit != wanted):
        host.call(host.handle(guest).setBlockIoTune, name, {"total_bytes_sec": wanted}, live)
    return dict.fromkeys(there, wanted)
