"""Reading of a host's guests: their use, the limits that are due, and busy guests.

A host handles one call at a time, so a call that waits for a busy guest delays all others.
OpenNebula names the VMs that it moves. A guest may also be moving without OpenNebula's knowledge,
for example because another program started it. Guests are asked about this only if their reading
gives a reason: in most periods none does.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np
from twisted.logger import Logger

from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.device_limits import (
    AllowedRates,
    allowed,
    changed,
    read_devices,
)
from merkatd.hypervisor.libvirt.host.driver import GuestDriver, names_of
from merkatd.hypervisor.libvirt.host.guest import (
    KIB_PER_MIB,
    Cpu,
    Guest,
    GuestReading,
    Words,
    vm_of,
)
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import (
    LibvirtRefusedError,
    error_line,
    is_gone,
    is_unsupported,
)
from merkatd.hypervisor.libvirt.host_queues import Steps
from merkatd.limits import UNSET, Cores, EnforcedLimits
from merkatd.scheduler.base.ports import GuestUse


def busy(host: HostConnection, guest: Guest) -> bool:
    """Return whether a change of the guest would have to wait for a job that runs on it."""
    if guest.sight.free and not guest.held_up:
        return False
    api = libvirt_module.require_libvirt()
    try:
        job = host.call(host.handle(guest).jobStats)
    except api.libvirtError as error:
        # Only the source host can report on a guest that migrates here.
        guest.held_up = error.get_error_code() == api.VIR_ERR_OPERATION_UNSUPPORTED
        if guest.held_up or error.get_error_code() == api.VIR_ERR_NO_SUPPORT:
            return guest.held_up
        raise
    # During a backup the guest can still be changed.
    guest.held_up = (
        job.get("type", api.VIR_DOMAIN_JOB_NONE) != api.VIR_DOMAIN_JOB_NONE
        and job.get(api.VIR_DOMAIN_JOB_OPERATION) != api.VIR_DOMAIN_JOB_OPERATION_BACKUP
    )
    return guest.held_up


def needs_free(host: HostConnection, guest: Guest) -> None:
    """Raise LibvirtRefusedError if a change would have to wait."""
    if busy(host, guest):
        raise LibvirtRefusedError(f"VM {guest.vm} is being moved, saved or copied on its host")


def is_timeout(error: object) -> bool:
    """Return whether the error is libvirt's timeout of a call that waited for a busy guest."""
    code = getattr(error, "get_error_code", lambda: None)()
    return bool(code == libvirt_module.require_libvirt().VIR_ERR_OPERATION_TIMEOUT)


_log = Logger()


class Row(NamedTuple):
    """One guest's use and limits, as the period needs them."""

    vm: int
    cpu_s: float
    held_mib: float
    used_mib: float
    cpu: Cpu
    memory_mib: int
    balloon: bool
    cores: Cores
    allowed: AllowedRates = AllowedRates()
    emulator_off: bool = False
    run: int = 0
    dirty_mib_s: float = np.nan


class HostReading(NamedTuple):
    """The options of reading guests in a period."""

    turn: int = 0
    """The number of the period."""
    every: int = 1
    """The number of periods between two readings of a guest's limits."""
    period_us: int = 100_000
    """The period in which quotas are expressed."""
    unmeasured: bool = False
    """Whether balloons also move in guests that don't report their use of memory."""
    goods: tuple[str, ...] = ()
    """The traded goods among network and disk; without any, devices are not read."""
    to_show: bool = False
    """Whether guests of other VMs stay known: a period may be about to limit them."""


def read_host(
    host: HostConnection, driver: GuestDriver, vms: Sequence[int], look: HostReading
) -> Steps[list[Row]]:
    """Return those of the VMs that run on the host; unknown limits are read in any case."""
    sights = driver.survey(host, vms)
    now_s = host.seconds()
    there = {}
    for rank, sight in enumerate(sights):
        there[sight.vm] = guest = _known(host, sight)
        if guest.checked is None:
            # Guests first seen together are read back in different periods.
            guest.checked = look.turn - rank % look.every
        guest.see(sight, host.openings, now_s)
        told_mib = guest.told_mib
        if guest.strayed():
            _drifted(host, guest, "memory", round(guest.held_mib), told_mib)
    others = host.guests.keys() - vms if look.to_show else ()
    host.guests = {vm: host.guests[vm] for vm in others} | there
    rows = []
    for vm in sorted(there):
        guest = there[vm]
        if _is_known(host, driver, guest, look):
            rows.append(row_of(host, driver, guest, now_s, look))
            yield
    return rows


def read_runs(host: HostConnection, _driver: GuestDriver) -> Steps[dict[int, int]]:
    """Return the domain ids of all of OpenNebula's guests on a host by VM id, from one call."""
    runs = {vm_of(name): domain.ID() for name, domain in names_of(host).items()}
    yield
    return {vm: run for vm, run in runs.items() if vm is not None}


def _is_known(host: HostConnection, driver: GuestDriver, guest: Guest, look: HostReading) -> bool:
    """Read what is missing or due; return whether the guest's limits are known afterwards."""
    try:
        if guest.described is None and busy(host, guest):
            return False
        _find_out(host, driver, guest, look)
    except LibvirtRefusedError as error:
        _warn_once(host, guest, error_line(error))
    except libvirt_module.require_libvirt().libvirtError as error:
        if is_gone(error):
            return False
        _warn_once(host, guest, error_line(error))
    return guest.words is not None


def _known(host: HostConnection, sight: GuestReading) -> Guest:
    """Return the known guest, or a new one if its domain was started again."""
    run = sight.domain.ID()
    known = host.guests.get(sight.vm)
    if known is None or known.run != run:
        return Guest(vm=sight.vm, domain=sight.domain, opening=host.openings, run=run, sight=sight)
    return known


def _find_out(host: HostConnection, driver: GuestDriver, guest: Guest, look: HostReading) -> None:
    if guest.described is None:
        driver.describe(host, guest)
    due = look.turn - (guest.checked or 0) >= look.every
    if due:
        guest.checked = look.turn
    if due:
        _find_memory(host, driver, guest)
    if guest.words is None or due:
        words = driver.words(host, guest)
        _compare(host, guest, words)
        guest.words = words
    if look.goods:
        # Owners attach devices at any time: a new device may get the name of an earlier one.
        devices = read_devices(host, driver, guest)
        for name, now, before in changed(devices, guest.devices):
            _drifted(host, guest, f"the limit of {name}", now, before)
        guest.devices = devices
    if host.pins and (guest.cores is None or due):
        _find_cores(host, driver, guest)
    if due and host.settings.dirty_rates and not busy(host, guest):
        driver.measure(host, guest)


def _find_cores(host: HostConnection, driver: GuestDriver, guest: Guest) -> None:
    try:
        cores = driver.cores(host, guest)
    except LibvirtRefusedError as error:
        _warn_once(host, guest, error_line(error))
        return
    except libvirt_module.require_libvirt().libvirtError as error:
        if not is_unsupported(error):
            raise
        cores = ()
    if guest.cores is not None and cores != guest.cores:
        _drifted(host, guest, "pins", cores, guest.cores)
    guest.cores = cores
    _find_emulator(host, driver, guest)


def _find_emulator(host: HostConnection, driver: GuestDriver, guest: Guest) -> None:
    """Read the emulator's pins; a difference from the pins that were set is drift."""
    try:
        cores = driver.emulator(host, guest)
    except libvirt_module.require_libvirt().libvirtError as error:
        if not is_unsupported(error):
            raise
        guest.emulator = None
        return
    if guest.emulator == host.reserved != cores and any(guest.cores or ()):
        _drifted(host, guest, "the pin of its emulator", cores, guest.emulator)
    guest.emulator = cores


def _find_memory(host: HostConnection, driver: GuestDriver, guest: Guest) -> None:
    """Read the memory limit; another program's limit counts as drift and is replaced later."""
    there_mib = driver.memory_mib(host, guest)
    if there_mib is None:
        return
    known_mib = round(guest.held_mib) if guest.told_mib == UNSET else guest.told_mib
    if there_mib == known_mib:
        return
    _drifted(host, guest, "memory", there_mib, known_mib)
    guest.tell(there_mib, host.seconds())
    guest.sight = guest.sight._replace(held_kib=float(there_mib * KIB_PER_MIB))


def _warn_once(host: HostConnection, guest: Guest, why: str) -> None:
    """Log a guest's problem once, not in each period."""
    if guest.trouble != why:
        guest.trouble = why
        _log.warn(
            "VM {vm} on {host} can't be read: {why}",
            vm=guest.vm,
            host=host.place.name,
            why=why,
        )


def _compare(host: HostConnection, guest: Guest, words: Words) -> None:
    """Log limits that another program changed."""
    if guest.words is None:
        return
    others = {
        name for name in words.keys() | guest.words if words.get(name) != guest.words.get(name)
    }
    for name in sorted(others):
        _drifted(host, guest, name, words.get(name), guest.words.get(name))
    if others:
        guest.asked = None


def _drifted(host: HostConnection, guest: Guest, what: str, there: object, ours: object) -> None:
    host.drift += 1
    _log.warn(
        "VM {vm} on {host}: another program changed {what} from {ours} to {there}",
        vm=guest.vm,
        host=host.place.name,
        what=what,
        there=there,
        ours=ours,
    )


def row_of(
    host: HostConnection, driver: GuestDriver, guest: Guest, now_s: float, look: HostReading
) -> Row:
    """Return the row of a guest whose limits are known."""
    used_mib = guest.used_mib(now_s)
    measured = used_mib == used_mib or not driver.measures or look.unmeasured  # noqa: PLR0124 - NaN
    cpu = guest.asked
    if cpu is None:
        cpu = driver.meaning(guest.words or {}, guest, look.period_us)
    return Row(
        vm=guest.vm,
        cpu_s=guest.sight.cpu_s,
        held_mib=guest.held_mib,
        used_mib=used_mib,
        cpu=cpu,
        memory_mib=guest.told_mib,
        balloon=bool(
            guest.described and guest.described.balloon and measured and guest.follows(now_s)
        ),
        cores=guest.cores or (),
        allowed=allowed(guest.devices),
        emulator_off=guest.emulator_off(host.reserved),
        run=guest.run,
        dirty_mib_s=guest.sight.dirty_mib_s,
    )


def use_of(
    rows: Sequence[Row], pinned_by_others: AbstractSet[int], away: Mapping[int, str]
) -> GuestUse:
    """Return the rows as columns; `pinned_by_others` are the VMs that OpenNebula pins."""
    rows = sorted(rows)
    used_mib = np.array([row.used_mib for row in rows], dtype=np.float64)
    return GuestUse(
        vm_id=_whole([row.vm for row in rows]),
        cpu_s=np.array([row.cpu_s for row in rows], dtype=np.float64),
        held_mib=np.array([row.held_mib for row in rows], dtype=np.float64),
        used_mib=used_mib,
        in_force=EnforcedLimits(
            vcpu_quota_us=_whole([row.cpu.vcpu_quota_us for row in rows]),
            global_quota_us=_whole([row.cpu.global_quota_us for row in rows]),
            shares=_whole([row.cpu.shares for row in rows]),
            memory_mib=_whole([row.memory_mib for row in rows]),
            used_mib=used_mib,
            balloon=np.array([row.balloon for row in rows], dtype=bool),
            pin_policy=np.array([row.vm in pinned_by_others for row in rows], dtype=bool),
            pins={row.vm: row.cores for row in rows if any(row.cores)},
            emulators_off=frozenset(row.vm for row in rows if row.emulator_off),
            further={
                "network": _whole([row.allowed.network_kb_s for row in rows]),
                "disk": _whole([row.allowed.disk_kib_s for row in rows]),
            },
        ),
        away=away,
        run=_whole([row.run for row in rows]),
        dirty_mib_s=np.array([row.dirty_mib_s for row in rows], dtype=np.float64),
    )


def _whole(values: Sequence[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)
