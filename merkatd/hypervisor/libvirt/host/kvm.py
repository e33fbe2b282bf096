"""KVM and QEMU guests: one call reads all of them, control groups limit them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.driver import NS_PER_S, quota_or_unset
from merkatd.hypervisor.libvirt.host.guest import (
    KIB_PER_MIB,
    Cpu,
    Guest,
    GuestReading,
    Words,
    described,
    vm_of,
)
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtRefusedError, is_unsupported
from merkatd.limits import CGROUP, UNSET, Cores, from_cgroup, to_cgroup

NO_QUOTA = -1
_UNITS_PER_CORE = 100
_V1_PER_CORE = 1024
_V2_PER_CORE = 100
_RSS = _NEEDS_A_JOB = "balloon.rss"
"""The memory of the guest's process. libvirt leaves it out if it would have to wait for a job."""
_OVERHEAD_KIB = 1024.0 * KIB_PER_MIB
"""The most memory that the process of a guest uses besides the guest's own."""
_MEASURED_S = 1
_MEASURING, _MEASURED = 1, 2
"""libvirt's states of the measurement of a dirty rate."""
_QUOTAS = {"vcpu_quota": "vcpu_period", "global_quota": "global_period"}
_NOT_OURS = ("emulator_quota", "iothread_quota")
"""Quotas that merkatd never sets: these threads share the quota of the whole VM."""


class Kvm:
    """Implements `merkatd.hypervisor.libvirt.host.driver.GuestDriver`."""

    measures = True
    pins = True
    throttles = True
    hard = False

    def survey(self, host: HostConnection, vms: Sequence[int]) -> list[GuestReading]:
        """Read all guests in one call, which does not wait for busy guests."""
        api = libvirt_module.require_libvirt()
        wanted = set(vms)
        what = (
            api.VIR_DOMAIN_STATS_STATE
            | api.VIR_DOMAIN_STATS_CPU_TOTAL
            | api.VIR_DOMAIN_STATS_BALLOON
            | (api.VIR_DOMAIN_STATS_DIRTYRATE if host.settings.dirty_rates else 0)
        )
        how = (
            api.VIR_CONNECT_GET_ALL_DOMAINS_STATS_ACTIVE
            | api.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        )
        domains = host.call(host.connection().getAllDomainStats, what, how)
        return [
            _sight(vm, domain, stats, host.guests.get(vm))
            for domain, stats in domains
            if (vm := vm_of(domain.name())) in wanted and vm is not None
        ]

    def describe(self, host: HostConnection, guest: Guest) -> None:
        """Read its XML, and turn on reports of its memory use if they are possible but off."""
        guest.described = described(host.call(host.handle(guest).XMLDesc, 0))
        if guest.described.balloon and not guest.described.stats_period_s:
            self._set_stats(host, guest, _stats_period_s(host))

    def forget(self, host: HostConnection, guest: Guest) -> None:
        """Turn off the reports of its memory use, unless their interval is another program's."""
        there = described(host.call(host.handle(guest).XMLDesc, 0))
        if there.balloon and there.stats_period_s == _stats_period_s(host):
            self._set_stats(host, guest, 0)
        guest.described = None

    def _set_stats(self, host: HostConnection, guest: Guest, period_s: int) -> None:
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        try:
            host.call(host.handle(guest).setMemoryStatsPeriod, period_s, live)
        except libvirt_module.require_libvirt().libvirtError as error:
            if not is_unsupported(error):
                raise

    def used_kib(self, host: HostConnection, guest: Guest) -> float:
        """Return the use in the guest's last report."""
        there = host.call(host.handle(guest).memoryStats)
        free = there.get("usable", there.get("unused"))
        return _used_kib(there.get("available"), free)

    def words(self, host: HostConnection, guest: Guest) -> Words:
        """Return the control groups' limits."""
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        there = host.call(host.handle(guest).schedulerParametersFlags, live)
        values = {"cpu_shares": int(there.get("cpu_shares", UNSET))}
        for quota in _NOT_OURS:
            values[quota] = quota_or_unset(there.get(quota))
            # For a guest without such threads libvirt shows the quota of the whole guest.
            if values[quota] == quota_or_unset(there.get("global_quota")):
                values[quota] = NO_QUOTA
        for quota, period in _QUOTAS.items():
            values[quota] = quota_or_unset(there.get(quota))
            if values[quota] != NO_QUOTA:
                values[period] = int(there[period])
        return values

    def cores(self, host: HostConnection, guest: Guest) -> Cores:
        """Return libvirt's pins; a guest that may use all cores of the host has none."""
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        maps = host.call(host.handle(guest).vcpuPinInfo, live)
        pins = tuple(_cores(may) for may in maps)
        return pins if any(pins) else ()

    def emulator(self, host: HostConnection, guest: Guest) -> tuple[int, ...]:
        """Return the emulator's cores; empty, without a call, if the host reserves no cores."""
        if not host.reserved:
            return ()
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        return _cores(host.call(host.handle(guest).emulatorPinInfo, live))

    def measure(self, host: HostConnection, guest: Guest) -> None:
        """Start a measurement of a second, unless one is under way; older QEMU can't measure."""
        if guest.sight.measuring:
            return
        api = libvirt_module.require_libvirt()
        try:
            host.call(host.handle(guest).startDirtyRateCalc, _MEASURED_S, 0)
        except api.libvirtError as error:
            # QEMU refuses with an internal error if another program has just begun to measure.
            if not is_unsupported(error) and error.get_error_code() != api.VIR_ERR_INTERNAL_ERROR:
                raise

    def wording(self, limit: Limit, guest: Guest) -> Words:
        """Return the limits in a safe order: removed quotas first, then the changed ones.

        Control groups v1 never accept a virtual CPU's quota above the quota of the whole VM. So a
        shrinking VM gets its virtual CPUs' quota first, a growing VM the quota of the whole.
        """
        asked = {"global_quota": limit.global_quota_us, "vcpu_quota": limit.vcpu_quota_us}
        limits = {quota: NO_QUOTA for quota, value in asked.items() if value is None}
        limits |= dict.fromkeys(_NOT_OURS, NO_QUOTA)
        order = list(asked.items())
        before = _per_period(guest.words or {}, "vcpu_quota", limit.quota_period_us)
        if before != UNSET and before >= (limit.vcpu_quota_us or 0):
            order.reverse()
        for quota, value in order:
            if value is not None:
                limits[_QUOTAS[quota]] = limit.quota_period_us
                limits[quota] = value
        return {**limits, "cpu_shares": to_cgroup(limit.shares)}

    def meaning(self, words: Words, guest: Guest, period_us: int) -> Cpu:
        """Convert the quotas; return none if a quota is set that merkatd never sets."""
        del guest
        shares = from_cgroup(words["cpu_shares"])
        if any(words.get(quota, NO_QUOTA) != NO_QUOTA for quota in _NOT_OURS):
            return Cpu(shares=shares)
        vcpu_us = _per_period(words, "vcpu_quota", period_us)
        return Cpu(vcpu_us, _per_period(words, "global_quota", period_us), shares)

    def own_shares(self, host: HostConnection, guest: Guest, cpu_units: float) -> Words:
        """Return 1024 per core with control groups v1, 100 with v2.

        The host runs v2 if it refuses a weight above 10,000.
        """
        cores = cpu_units / _UNITS_PER_CORE
        try:
            self.set_words(host, guest, {"cpu_shares": CGROUP.greatest + 1})
        except LibvirtRefusedError:
            return {"cpu_shares": max(math.ceil(cores * _V2_PER_CORE), 1)}
        return {"cpu_shares": max(math.ceil(cores * _V1_PER_CORE), 2)}

    def set_words(self, host: HostConnection, guest: Guest, words: Words) -> None:
        """Set the limits in the order given."""
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        try:
            host.call(host.handle(guest).setSchedulerParametersFlags, dict(words), live)
        except LookupError as error:
            raise LibvirtRefusedError(f"its hypervisor does not know {error}") from error
        except libvirt_module.require_libvirt().libvirtError as error:
            if error.get_error_code() == libvirt_module.require_libvirt().VIR_ERR_INVALID_ARG:
                raise LibvirtRefusedError(str(error)) from error
            raise

    def set_cores(self, host: HostConnection, guest: Guest, cores: Cores) -> None:
        """Pin the virtual CPUs that differ; emulator threads get the reserved cores, or all."""
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        domain = host.handle(guest)
        there = guest.cores or ()
        count = max(len(cores), len(there), guest.vcpus if guest.cores is None else 0)
        for vcpu in range(count):
            wanted = cores[vcpu] if vcpu < len(cores) else ()
            known = there[vcpu] if vcpu < len(there) else ()
            if guest.cores is None or wanted != known:
                host.call(domain.pinVcpuFlags, vcpu, _map(host, wanted), live)
        emulator = host.reserved if any(cores) else ()
        if host.reserved and guest.emulator != emulator:
            guest.emulator = None
            host.call(domain.pinEmulator, _map(host, emulator), live)
            guest.emulator = emulator

    def memory_mib(self, host: HostConnection, guest: Guest) -> int | None:
        """Return None: the survey shows its memory."""
        del host, guest
        return None

    def set_memory(self, host: HostConnection, guest: Guest, memory_mib: int) -> None:
        """Set the memory of the running guest, not of its stored definition."""
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        host.call(host.handle(guest).setMemoryFlags, memory_mib * KIB_PER_MIB, live)


def _sight(vm: int, domain: Any, stats: Mapping[str, Any], known: Guest | None) -> GuestReading:
    """Return a guest's reading; values missing from the reply keep their last known value."""
    before = None if known is None or known.run != domain.ID() else known.sight
    held = stats.get("balloon.current")
    available = stats.get("balloon.available")
    free = stats.get("balloon.usable", stats.get("balloon.unused"))
    used = _used_kib(available, free)
    if held is None:
        held = math.nan if before is None else before.held_kib
        used = math.nan if before is None else before.used_kib
    cpu_ns = stats.get("cpu.time")
    cpu_s = (0.0 if before is None else before.cpu_s) if cpu_ns is None else cpu_ns / NS_PER_S
    told_at = int(stats.get("balloon.last-update", 0 if before is None else before.told_at))
    most = float(stats.get("balloon.maximum", held))
    held = max(float(held), _surely_held_kib(stats, most))
    status = stats.get("dirtyrate.calc_status")
    dirty_mib_s = math.nan if before is None else before.dirty_mib_s
    if status == _MEASURED:
        dirty_mib_s = float(stats.get("dirtyrate.megabytes_per_second", math.nan))
    return GuestReading(
        vm,
        domain,
        cpu_s,
        held,
        most,
        used,
        told_at,
        free=_NEEDS_A_JOB in stats,
        dirty_mib_s=dirty_mib_s,
        measuring=status == _MEASURING,
    )


def _surely_held_kib(stats: Mapping[str, Any], most_kib: float) -> float:
    """Return the memory that a guest certainly holds, whatever its balloon says.

    The guest's own driver writes the size of its balloon, and may keep the pages. Besides, a guest
    with a passed-through device cannot give its pages back. The host counts them all the same.
    """
    return min(float(stats.get(_RSS, 0)) - _OVERHEAD_KIB, most_kib)


def _used_kib(available: int | None, free: int | None) -> float:
    """Return the use in a guest's report; NaN without a report.

    The guest's own driver writes the numbers: it may report more free memory than it has.
    """
    if available is None or free is None:
        return math.nan
    return float(max(available - free, 0))


def _stats_period_s(host: HostConnection) -> int:
    return max(round(host.settings.balloon_stats_s), 1)


def _per_period(words: Words, quota: str, period_us: int) -> int:
    if words.get(quota, UNSET) == UNSET:
        return UNSET
    return max(words[quota] * period_us // words[_QUOTAS[quota]], 1)


def _cores(may: Sequence[bool]) -> tuple[int, ...]:
    """Return the cores of a CPU map; empty if all cores may be used."""
    return () if all(may) else tuple(core for core, allowed in enumerate(may) if allowed)


def _map(host: HostConnection, cores: Sequence[int]) -> tuple[bool, ...]:
    """Return cores as libvirt's CPU map; an empty list means all cores."""
    count = host.cores or int(host.call(host.connection().getCPUMap)[0])
    host.cores = count
    if any(core >= count for core in cores):
        raise LibvirtRefusedError(f"{host.place.name} has only the cores 0 to {count - 1}")
    return tuple(not cores or core in cores for core in range(count))
