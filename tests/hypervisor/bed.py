"""The adapter on doubles of hosts; its work runs at once, and the test advances the time."""

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.base.clock import Executor
from merkatd.cluster import Balloon, Limit, OnHost, Pin, Throttle
from merkatd.hypervisor.libvirt import HostAddress, LibvirtHypervisors, LibvirtSettings
from merkatd.limits import Cores, LimitsSettings
from merkatd.scheduler.base.ports import GuestUse
from tests.hypervisor.double import DoubleHost


class OneThread(Clock):
    """A reactor whose other threads are the present one."""

    def callFromThread(self, call: Callable[..., object], *arguments: object) -> None:  # noqa: N802
        """Call at once."""
        call(*arguments)


def run_now(running: Any) -> Any:
    """Return the result of a coroutine that never waits."""
    outcomes: list[Any] = []
    ensureDeferred(running).addBoth(outcomes.append)
    (outcome,) = outcomes
    if hasattr(outcome, "raiseException"):
        outcome.raiseException()
    return outcome


class Bed:
    """Hosts by id, and the adapter that uses them."""

    def __init__(
        self,
        hosts: Mapping[int, DoubleHost],
        settings: LibvirtSettings | None = None,
        limits: LimitsSettings | None = None,
        goods: tuple[str, ...] = (),
        executor: Executor | None = None,
        surely: Callable[[], bool] = lambda: True,
    ) -> None:
        self.hosts = hosts
        self.clock = OneThread()
        self.clock.advance(1_000)
        self.adapter = LibvirtHypervisors(
            self.clock,
            self._address,
            settings,
            limits,
            goods=goods,
            executor=executor,
            surely=surely,
            start=lambda work: work(),
            opened=lambda address, keepalive: self._host(address).open(address, keepalive),
        )

    def _address(self, place: HostAddress) -> str:
        return f"{self.hosts[place.id].kind}:///{place.id}"

    def _host(self, address: str) -> DoubleHost:
        return self.hosts[int(address.rpartition("/")[2])]

    def vm_hosts(self) -> dict[int, int]:
        """Return the host of each running VM, as the cloud would report it."""
        return {
            int(name.removeprefix("one-")): host
            for host, there in self.hosts.items()
            for name in there.domains
        }

    def read(self, vms: Mapping[int, int] | None = None, after_s: float = 60.0) -> GuestUse:
        """Read use and limits, a period later."""
        self.clock.advance(after_s)
        use: GuestUse = run_now(self.adapter.read(self.vm_hosts() if vms is None else vms))
        return use

    def apply(self, *steps: OnHost) -> Mapping[str, str]:
        """Apply steps; return the refusal of each refused step, by step id."""
        refused: Mapping[str, str] = run_now(self.adapter.apply(steps))
        return refused

    def begin(self, running: Any) -> "list[Any]":
        """Start a coroutine; return a list that gets its result."""
        outcomes: list[Any] = []
        deferred: Deferred[Any] = ensureDeferred(running)
        deferred.addBoth(outcomes.append)
        return outcomes


def limit(
    vm: int, vcpu: int | None = None, all_vcpus: int | None = None, shares: int = 1024
) -> Limit:
    """Return a limit with quota periods of 100,000 us."""
    return Limit(
        period=1,
        reason="",
        vm=vm,
        vcpu_quota_us=vcpu,
        global_quota_us=all_vcpus,
        quota_period_us=100_000,
        shares=shares,
    )


def pin(vm: int, cores: Cores) -> Pin:
    """Return a step that pins to the cores, or removes the pins if there are none."""
    return Pin(period=1, reason="", vm=vm, cores=cores)


def balloon(vm: int, memory_mib: int) -> Balloon:
    """Return a balloon step."""
    return Balloon(period=1, reason="", vm=vm, memory_mib=memory_mib)


def throttle(vm: int, network_kb_s: int | None = None, disk_kib_s: int | None = None) -> Throttle:
    """Return a throttle step."""
    return Throttle(period=1, reason="", vm=vm, network_kb_s=network_kb_s, disk_kib_s=disk_kib_s)
