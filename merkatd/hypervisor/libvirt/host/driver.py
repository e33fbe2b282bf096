"""What differs between hypervisors: how guests are read, and in which words they are limited."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.guest import Cpu, Guest, GuestReading, Words
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtRefusedError, has_gone
from merkatd.limits import UNSET, Cores

NS_PER_S = 1e9


class GuestDriver(Protocol):
    """One kind of hypervisor. What is called raises libvirtError, AwayError or RefusedError."""

    measures: bool
    """Whether its guests can tell how much memory they use."""
    pins: bool
    """Whether its virtual CPUs can be pinned."""
    throttles: bool
    """Whether its guests' interfaces and disks can be limited."""
    hard: bool
    """Whether processes end where a guest is told less memory than it uses."""

    def survey(self, host: HostConnection, vms: Sequence[int]) -> list[GuestReading]:
        """These guests, in as few calls as may be; those that are not there are left out."""

    def describe(self, host: HostConnection, guest: Guest) -> None:
        """Find out what is needed of a guest that was not known before."""

    def used_kib(self, host: HostConnection, guest: Guest) -> float:
        """What the guest uses at this moment; NaN where it does not tell."""

    def words(self, host: HostConnection, guest: Guest) -> Words:
        """The CPU limits that the host enforces."""

    def cores(self, host: HostConnection, guest: Guest) -> Cores:
        """Where the guest is pinned, whoever did it; empty where it is not."""

    def emulator(self, host: HostConnection, guest: Guest) -> tuple[int, ...]:
        """The cores of its other threads, empty for all; asked where some are reserved for them."""

    def memory_mib(self, host: HostConnection, guest: Guest) -> int | None:
        """The limit of its memory that the host enforces; None where the survey shows it."""

    def wording(self, limit: Limit, guest: Guest) -> Words:
        """A limit in the host's words."""

    def meaning(self, words: Words, guest: Guest, period_us: int) -> Cpu:
        """The host's words as a limit with such periods, where they are not ours."""

    def own_shares(self, host: HostConnection, guest: Guest, cpu_units: float) -> Words:
        """The weight that OpenNebula gives a VM of this size."""

    def set_words(self, host: HostConnection, guest: Guest, words: Words) -> None:
        """Enforce these words; others stay."""

    def set_cores(self, host: HostConnection, guest: Guest, cores: Cores) -> None:
        """Pin the guest, or free it."""

    def set_memory(self, host: HostConnection, guest: Guest, memory_mib: int) -> None:
        """Tell its balloon."""

    def forget(self, host: HostConnection, guest: Guest) -> None:
        """Take back what `describe` has changed."""


def differing(wanted: Words, there: Words | None) -> Words:
    """What of the wanted words the host does not enforce already."""
    if there is None:
        return wanted
    return {name: value for name, value in wanted.items() if there.get(name) != value}


def quota_or_unset(value: int | None, most: int = 10**13) -> int:
    """A quota as a host shows it: negative or endless where there is none."""
    return UNSET if value is None or not 0 < value < most else int(value)


def as_whole(limit: Limit, vcpus: int) -> int:
    """The quota of a limit for all virtual CPUs together; UNSET for none."""
    quotas = []
    if limit.vcpu_quota_us is not None:
        quotas.append(limit.vcpu_quota_us * vcpus)
    if limit.global_quota_us is not None:
        quotas.append(limit.global_quota_us)
    return min(quotas, default=UNSET)


def names_of(host: HostConnection) -> Mapping[str, Any]:
    """The domains that run on the host, by name."""
    found = host.call(host.connection().listAllDomains, 1)
    return {domain.name(): domain for domain in found}


def one_by_one(host: HostConnection, vms: Sequence[int]) -> Iterator[tuple[int, Any, Any]]:
    """A call each: VM, domain, and what libvirt calls its information; of those that are there."""
    domains = names_of(host)
    for vm in vms:
        domain = domains.get(f"one-{vm}")
        if domain is None:
            continue
        try:
            information = host.call(domain.info)
        except libvirt_module.needed().libvirtError as error:
            if not has_gone(error):
                raise
            continue
        yield vm, domain, information


def no_pins(_host: HostConnection, _guest: Guest, cores: Cores) -> None:
    """Refuse to pin, where there is something to pin."""
    if any(cores):
        raise LibvirtRefusedError("its hypervisor knows no pins")
