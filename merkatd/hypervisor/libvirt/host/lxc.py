"""LXC containers: one quota per container, memory as a hard limit, no pins."""

import math
from collections.abc import Sequence

from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.driver import (
    NS_PER_S,
    as_whole,
    one_by_one,
    quota_or_unset,
    refuse_pins,
)
from merkatd.hypervisor.libvirt.host.guest import (
    KIB_PER_MIB,
    Cpu,
    DomainFacts,
    Guest,
    GuestReading,
    Words,
)
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.kvm import NO_QUOTA, Kvm
from merkatd.limits import UNSET, Cores, from_cgroup, to_cgroup, whole_quota


class Lxc:
    """Implements `merkatd.hypervisor.libvirt.host.driver.GuestDriver`."""

    measures = True
    pins = False
    throttles = False
    hard = True

    def __init__(self) -> None:
        self._groups = Kvm()
        """The driver for control groups, which limit containers too."""

    def survey(self, host: HostConnection, vms: Sequence[int]) -> list[GuestReading]:
        """Read the containers with a call each; a container holds its last known memory limit."""
        readings = []
        for vm, domain, (_, most, used, _, cpu_ns) in one_by_one(host, vms):
            known = host.guests.get(vm)
            told_mib = UNSET if known is None or known.run != domain.ID() else known.told_mib
            held = float(most if told_mib == UNSET else told_mib * KIB_PER_MIB)
            readings.append(
                GuestReading(vm, domain, cpu_ns / NS_PER_S, held, float(most), float(used))
            )
        return readings

    def describe(self, host: HostConnection, guest: Guest) -> None:
        """Read its virtual CPUs, and a memory limit that was set before this daemon's first."""
        vcpus = int(host.call(host.handle(guest).info)[3])
        guest.described = DomainFacts(vcpus=vcpus, balloon=True)
        allowed_mib = self._allowed_mib(host, guest)
        if allowed_mib * KIB_PER_MIB < guest.sight.most_kib:
            guest.tell(allowed_mib, host.seconds())
            guest.sight = guest.sight._replace(held_kib=float(allowed_mib * KIB_PER_MIB))

    def forget(self, host: HostConnection, guest: Guest) -> None:
        """Do nothing: `describe` changes nothing."""

    def used_kib(self, host: HostConnection, guest: Guest) -> float:
        """Return the memory that its control group holds, including file pages."""
        return float(host.call(host.handle(guest).info)[2])

    def _allowed_mib(self, host: HostConnection, guest: Guest) -> int:
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        there = host.call(host.handle(guest).memoryParameters, live)
        return int(there["hard_limit"]) // KIB_PER_MIB

    def words(self, host: HostConnection, guest: Guest) -> Words:
        """Return the control group's limits."""
        live = libvirt_module.require_libvirt().VIR_DOMAIN_AFFECT_LIVE
        there = host.call(host.handle(guest).schedulerParametersFlags, live)
        quota = quota_or_unset(there.get("vcpu_quota"))
        period = {} if quota == NO_QUOTA else {"vcpu_period": int(there["vcpu_period"])}
        return {"vcpu_quota": quota, **period, "cpu_shares": int(there["cpu_shares"])}

    def cores(self, host: HostConnection, guest: Guest) -> Cores:
        """Return nothing: containers have no pins."""
        del host, guest
        return ()

    def emulator(self, host: HostConnection, guest: Guest) -> tuple[int, ...]:
        """Return nothing: containers have no pins."""
        del host, guest
        return ()

    def memory_mib(self, host: HostConnection, guest: Guest) -> int | None:
        """Return its hard limit, or its size without one."""
        return min(self._allowed_mib(host, guest), int(guest.sight.most_kib) // KIB_PER_MIB)

    def measure(self, host: HostConnection, guest: Guest) -> None:
        """Do nothing: libvirt measures QEMU's guests only."""

    def wording(self, limit: Limit, guest: Guest) -> Words:
        """Return the limits; libvirt's vcpu_quota applies to the whole container."""
        shares = {"cpu_shares": to_cgroup(limit.shares)}
        quota = as_whole(limit, guest.vcpus)
        if quota == UNSET:
            return {"vcpu_quota": NO_QUOTA, **shares}
        return {"vcpu_period": limit.quota_period_us, "vcpu_quota": quota, **shares}

    def meaning(self, words: Words, guest: Guest, period_us: int) -> Cpu:
        """Convert the quota, an equal part for each virtual CPU."""
        quota = together = UNSET
        if words["vcpu_quota"] != NO_QUOTA:
            total_quota = words["vcpu_quota"] * period_us / words["vcpu_period"]
            quota = max(math.floor(total_quota / guest.vcpus), 1)
            together = whole_quota(quota, guest.vcpus, period_us)
        return Cpu(quota, together, from_cgroup(words["cpu_shares"]))

    def own_shares(self, host: HostConnection, guest: Guest, cpu_units: float) -> Words:
        """Return the weight as for KVM."""
        return self._groups.own_shares(host, guest, cpu_units)

    def set_words(self, host: HostConnection, guest: Guest, words: Words) -> None:
        """Set the limits as for KVM."""
        self._groups.set_words(host, guest, words)

    def set_cores(self, host: HostConnection, guest: Guest, cores: Cores) -> None:
        """Refuse pins."""
        refuse_pins(host, guest, cores)

    def set_memory(self, host: HostConnection, guest: Guest, memory_mib: int) -> None:
        """Set the hard limit: beyond it the kernel kills processes."""
        self._groups.set_memory(host, guest, memory_mib)
