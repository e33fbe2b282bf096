"""The drivers of hypervisors: how to read guests, and under which names to limit them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt.host import libvirt_module
from merkatd.hypervisor.libvirt.host.guest import Cpu, Guest, GuestReading, Words
from merkatd.hypervisor.libvirt.host.host_connection import HostConnection
from merkatd.hypervisor.libvirt.host.libvirt_module import LibvirtRefusedError, is_gone
from merkatd.limits import UNSET, Cores

NS_PER_S = 1e9


class GuestDriver(Protocol):
    """A kind of hypervisor. Calls raise libvirtError, HostAwayError or LibvirtRefusedError."""

    measures: bool
    """Whether its guests can report how much memory they use."""
    pins: bool
    """Whether its virtual CPUs can be pinned."""
    throttles: bool
    """Whether its guests' interfaces and disks can be limited."""
    hard: bool
    """Whether processes are killed if a guest's memory limit is below its use."""

    def survey(self, host: HostConnection, vms: Sequence[int]) -> list[GuestReading]:
        """Return readings of these guests, without those that do not run here, in few calls."""

    def describe(self, host: HostConnection, guest: Guest) -> None:
        """Read the facts about a guest that do not change while it runs."""

    def used_kib(self, host: HostConnection, guest: Guest) -> float:
        """Return the guest's present use of memory; NaN if it does not report it."""

    def words(self, host: HostConnection, guest: Guest) -> Words:
        """Return the CPU limits that the host enforces."""

    def cores(self, host: HostConnection, guest: Guest) -> Cores:
        """Return the guest's pins, whatever program set them; empty without pins."""

    def emulator(self, host: HostConnection, guest: Guest) -> tuple[int, ...]:
        """Return the cores of the guest's emulator threads; empty means all cores."""

    def memory_mib(self, host: HostConnection, guest: Guest) -> int | None:
        """Return the memory limit that the host enforces; None if the survey shows it."""

    def measure(self, host: HostConnection, guest: Guest) -> None:
        """Start to measure the rate at which the guest writes to its memory, where possible."""

    def wording(self, limit: Limit, guest: Guest) -> Words:
        """Convert a limit step to the host's names and units."""

    def meaning(self, words: Words, guest: Guest, period_us: int) -> Cpu:
        """Convert the host's limits, set by another program, to a limit with this period."""

    def own_shares(self, host: HostConnection, guest: Guest, cpu_units: float) -> Words:
        """Return the CPU weight that OpenNebula gives a VM of this size."""

    def set_words(self, host: HostConnection, guest: Guest, words: Words) -> None:
        """Set these limits on the host; other limits stay."""

    def set_cores(self, host: HostConnection, guest: Guest, cores: Cores) -> None:
        """Pin the guest, or remove its pins."""

    def set_memory(self, host: HostConnection, guest: Guest, memory_mib: int) -> None:
        """Set the size of its balloon."""

    def forget(self, host: HostConnection, guest: Guest) -> None:
        """Undo the changes of `describe`."""


def limits_to_set(wanted: Words, there: Words | None) -> Words:
    """Return the wanted limits that the host does not enforce yet."""
    if there is None:
        return wanted
    return {name: value for name, value in wanted.items() if there.get(name) != value}


def quota_or_unset(value: int | None, most: int = 10**13) -> int:
    """Return a quota as the host shows it; UNSET if it is missing, negative or endless."""
    return UNSET if value is None or not 0 < value < most else int(value)


def as_whole(limit: Limit, vcpus: int) -> int:
    """Return a limit's quota for all virtual CPUs together; UNSET for none."""
    quotas = []
    if limit.vcpu_quota_us is not None:
        quotas.append(limit.vcpu_quota_us * vcpus)
    if limit.global_quota_us is not None:
        quotas.append(limit.global_quota_us)
    return min(quotas, default=UNSET)


def names_of(host: HostConnection) -> Mapping[str, Any]:
    """Return the domains that run on the host, by name."""
    domains = host.call(host.connection().listAllDomains, 1)
    return {domain.name(): domain for domain in domains}


def one_by_one(host: HostConnection, vms: Sequence[int]) -> Iterator[tuple[int, Any, Any]]:
    """Yield VM, domain and libvirt's `info` of each VM that runs here, with a call per VM."""
    domains = names_of(host)
    for vm in vms:
        domain = domains.get(f"one-{vm}")
        if domain is None:
            continue
        try:
            information = host.call(domain.info)
        except libvirt_module.require_libvirt().libvirtError as error:
            if not is_gone(error):
                raise
            continue
        yield vm, domain, information


def refuse_pins(_host: HostConnection, _guest: Guest, cores: Cores) -> None:
    """Refuse pins; an empty set of pins is accepted."""
    if any(cores):
        raise LibvirtRefusedError("its hypervisor does not support pins")
