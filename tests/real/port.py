"""The libvirt adapter, called by tests instead of a period."""

from collections.abc import Iterator, Mapping, Sequence

from merkatd.cluster import Balloon, Limit, OnHost, Pin
from merkatd.hypervisor.libvirt import LibvirtHypervisors, LibvirtSettings
from merkatd.scheduler.base.ports import GuestUse, HypervisorPort
from tests.opennebula.worlds import RealTime
from tests.real.host import RealHost

PERIOD_US = 100_000


class Port:
    """Calls that block until they are answered. Hosts are numbered in their given order."""

    def __init__(self, time: RealTime, hypervisors: HypervisorPort) -> None:
        self._time = time
        self.hypervisors = hypervisors

    def read(self, vms: Mapping[int, int]) -> GuestUse:
        """Return the use and limits of VMs, each on its host."""
        return self._time.run(self.hypervisors.read(vms))

    def apply(self, *steps: OnHost) -> None:
        """Send steps to the hosts, which must accept them."""
        refused = self._time.run(self.hypervisors.apply(steps))
        assert not refused, refused

    def refused(self, *steps: OnHost) -> Mapping[str, str]:
        """Return the hosts' reasons for refusing steps."""
        return self._time.run(self.hypervisors.apply(steps))


def limit(
    vm: int, *, vcpu: int | None = None, all_vcpus: int | None = None, shares: int = 1024
) -> Limit:
    """Return the step; quotas are in microseconds of 100,000."""
    return Limit(
        period=1,
        reason="",
        vm=vm,
        vcpu_quota_us=vcpu,
        global_quota_us=all_vcpus,
        quota_period_us=PERIOD_US,
        shares=shares,
    )


def pin(vm: int, *cores: tuple[int, ...]) -> Pin:
    """Return the step; without cores it removes the pins."""
    return Pin(period=1, reason="", vm=vm, cores=cores)


def balloon(vm: int, memory_mib: int) -> Balloon:
    """Return the step."""
    return Balloon(period=1, reason="", vm=vm, memory_mib=memory_mib)


def opened(
    time: RealTime, hosts: Sequence[RealHost], driver: str, goods: Sequence[str] = ()
) -> Iterator[Port]:
    """Yield the adapter with these hosts, and close it afterwards; it may pin on all of them."""
    adapter = LibvirtHypervisors(
        time.reactor,
        lambda place: hosts[place.id].uri(driver),
        LibvirtSettings(pin_hosts=frozenset({"*"}), check_every=1),
        goods=goods,
    )
    yield Port(time, adapter)
    time.run(adapter.close())
