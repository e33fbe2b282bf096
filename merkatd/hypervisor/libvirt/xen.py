"""Xen guests: weight and cap of the credit scheduler, pins through a command on the host."""

import math
from collections.abc import Mapping, Sequence

from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt import xl
from merkatd.hypervisor.libvirt.described import Described
from merkatd.hypervisor.libvirt.driver import NS_PER_S, one_by_one
from merkatd.hypervisor.libvirt.errors import RefusedError
from merkatd.hypervisor.libvirt.guest import KIB_PER_MIB, Cpu, Guest, Sight, Words
from merkatd.hypervisor.libvirt.host import Host
from merkatd.limits import CGROUP_V1, NO_CAP, UNSET, XEN, Cores, credit, whole_quota

_UNITS_PER_CORE = 100
_OWN_WEIGHT = 256
"""Of a VM with one core, as OpenNebula and Xen have it."""
_NO_FLAGS = 0
"""Xen's driver takes no others, and changes what runs."""


class Xen:
    """Implements `merkatd.hypervisor.libvirt.driver.Driver`."""

    measures = False
    pins = True
    throttles = False
    hard = False

    def __init__(self) -> None:
        self._pins: Mapping[str, Cores] | None = None
        self._trouble: RefusedError | None = None
        """Why the host could not say them, since it was last surveyed."""

    def survey(self, host: Host, vms: Sequence[int]) -> list[Sight]:
        """A call each."""
        self._pins = self._trouble = None
        return [
            Sight(vm, domain, cpu_ns / NS_PER_S, float(held), float(most), math.nan)
            for vm, domain, (_, most, held, _, cpu_ns) in one_by_one(host, vms)
        ]

    def describe(self, host: Host, guest: Guest) -> None:
        """Its virtual CPUs; every Xen guest has a balloon."""
        vcpus = int(host.call(host.handle(guest).info)[3])
        guest.described = Described(vcpus=vcpus, balloon=True)

    def forget(self, host: Host, guest: Guest) -> None:
        """Nothing was changed."""

    def used_kib(self, host: Host, guest: Guest) -> float:
        """Nobody says."""
        del host, guest
        return math.nan

    def words(self, host: Host, guest: Guest) -> Words:
        """Weight and cap."""
        there = host.call(host.handle(guest).schedulerParameters)
        return {"weight": int(there["weight"]), "cap": int(there["cap"])}

    def cores(self, host: Host, guest: Guest) -> Cores:
        """Of all guests of the host, once between two surveys at most."""
        if self._trouble is not None:
            raise self._trouble
        try:
            if self._pins is None:
                self._pins = host.call(xl.pins, host)
        except RefusedError as error:
            self._trouble = error
            raise
        found = self._pins.get(guest.name, ())
        return found if any(found) else ()

    def emulator(self, host: Host, guest: Guest) -> tuple[int, ...]:
        """Its other threads are another domain's."""
        del host, guest
        return ()

    def memory_mib(self, host: Host, guest: Guest) -> int | None:
        """The survey shows what it holds."""
        del host, guest
        return None

    def wording(self, limit: Limit, guest: Guest) -> Words:
        """The credit scheduler's."""
        found = credit(limit, guest.vcpus)
        return {"weight": found.weight, "cap": found.cap}

    def meaning(self, words: Words, guest: Guest, period_us: int) -> Cpu:
        """As if each virtual CPU had its part of the cap."""
        quota = whole = UNSET
        if words["cap"] != NO_CAP:
            quota = words["cap"] * period_us // (_UNITS_PER_CORE * guest.vcpus)
            whole = whole_quota(quota, guest.vcpus, period_us)
        shares = round(words["weight"] * CGROUP_V1.greatest / XEN.greatest)
        return Cpu(quota, whole, shares)

    def own_shares(self, host: Host, guest: Guest, cpu_units: float) -> Words:
        """256 a core, and no cap."""
        del host, guest
        weight = math.ceil(cpu_units / _UNITS_PER_CORE * _OWN_WEIGHT)
        return {"weight": min(max(weight, XEN.least), XEN.greatest)}

    def set_words(self, host: Host, guest: Guest, words: Words) -> None:
        """All at once."""
        host.call(host.handle(guest).setSchedulerParametersFlags, dict(words), _NO_FLAGS)

    def set_cores(self, host: Host, guest: Guest, cores: Cores) -> None:
        """By the command for it, for each virtual CPU that differs."""
        there = guest.cores or ()
        self._pins = None
        for vcpu in range(guest.vcpus):
            wanted = cores[vcpu] if vcpu < len(cores) else ()
            known = there[vcpu] if vcpu < len(there) else ()
            if guest.cores is None or wanted != known:
                host.call(xl.pin, host, guest.name, vcpu, wanted)

    def set_memory(self, host: Host, guest: Guest, memory_mib: int) -> None:
        """Of the running guest."""
        host.call(host.handle(guest).setMemory, memory_mib * KIB_PER_MIB)
