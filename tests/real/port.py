"""The adapter for libvirt, told by hand what otherwise the period tells it."""

from collections.abc import Iterator, Mapping, Sequence

from merkatd.cluster import Balloon, Limit, OnHost, Pin
from merkatd.hypervisor.libvirt import LibvirtHypervisors, LibvirtSettings
from merkatd.scheduler.base.ports import GuestUse, HypervisorPort
from tests.opennebula.worlds import RealTime
from tests.real.host import RealHost

PERIOD_US = 100_000


class Port:
    """Calls that wait for their answers. Hosts are numbered as they are given."""

    def __init__(self, time: RealTime, hypervisors: HypervisorPort) -> None:
        self._time = time
        self.hypervisors = hypervisors

    def read(self, vms: Mapping[int, int]) -> GuestUse:
        """Use and limits of VMs, each on its host."""
        return self._time.run(self.hypervisors.read(vms))

    def apply(self, *steps: OnHost) -> None:
        """Tell the hosts, which must accept it."""
        refused = self._time.run(self.hypervisors.apply(steps))
        assert not refused, refused

    def refused(self, *steps: OnHost) -> Mapping[str, str]:
        """What the hosts say against it."""
        return self._time.run(self.hypervisors.apply(steps))


def limit(
    vm: int, *, vcpu: int | None = None, whole: int | None = None, shares: int = 1024
) -> Limit:
    """The step; quotas are in microseconds of 100,000."""
    return Limit(
        period=1,
        reason="",
        vm=vm,
        vcpu_quota_us=vcpu,
        global_quota_us=whole,
        quota_period_us=PERIOD_US,
        shares=shares,
    )


def pin(vm: int, *cores: tuple[int, ...]) -> Pin:
    """The step; without cores it frees the pins."""
    return Pin(period=1, reason="", vm=vm, cores=cores)


def balloon(vm: int, memory_mib: int) -> Balloon:
    """The step."""
    return Balloon(period=1, reason="", vm=vm, memory_mib=memory_mib)


def opened(
    time: RealTime, hosts: Sequence[RealHost], driver: str, goods: Sequence[str] = ()
) -> Iterator[Port]:
    """The adapter with these hosts, closed afterwards; it may pin on all of them."""
    adapter = LibvirtHypervisors(
        time.reactor,
        lambda place: hosts[place.id].uri(driver),
        LibvirtSettings(pin_hosts=frozenset({"*"}), check_every=1),
        goods=goods,
    )
    yield Port(time, adapter)
    time.run(adapter.close())
