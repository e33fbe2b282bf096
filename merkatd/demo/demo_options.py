"""The options of a demo, and the sizes of its hosts and VMs. Importing it takes little time."""

from dataclasses import dataclass
from enum import StrEnum

from merkatd.placement.contract import Allocation, Charge
from merkatd.placement.registry import DEFAULT, strategy_named

USUAL_CORES = 8
_REAL_MEMORY_MIB = 2048
"""The memory of a host with real guests, of which the demo's guests use almost nothing."""


class GuestKind(StrEnum):
    """The kind of guests."""

    KVM = "kvm"
    QEMU = "qemu"
    LXC = "lxc"

    @property
    def address(self) -> str:
        """Return the libvirt address of this machine for this kind."""
        return "lxc:///system" if self is GuestKind.LXC else "qemu:///system"

    @property
    def words(self) -> str:
        """Return the description that the demo shows."""
        match self:
            case GuestKind.KVM:
                return "virtual machines (KVM)"
            case GuestKind.QEMU:
                return "virtual machines emulated by QEMU, because KVM is not available here"
            case GuestKind.LXC:
                return "containers, because libvirtd here runs no virtual machines"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoScale:
    """The sizes of hosts and VMs; work scales with the cores, relative to hosts of eight cores."""

    host_cores: int = USUAL_CORES
    host_memory_mib: int = 16_384
    memory_use_part: float = 0.375
    """The part of its memory that a simulated guest uses."""
    minute_s: float = 60.0
    """The cloud's seconds in a minute of the script."""
    real: GuestKind | None = None
    """The kind of real guests, None for simulated guests."""

    @property
    def work_part(self) -> float:
        """Return the factor for the script's work."""
        return self.host_cores / USUAL_CORES

    @property
    def vcpus(self) -> int:
        """Return the virtual CPUs of each VM: half of a host's cores."""
        return max(1, self.host_cores // 2)

    @property
    def memory_mib(self) -> int:
        """Return the memory of each VM: a quarter of a host's; an eighth if guests are real.

        Real guests have no balloon, so the daemon can't take memory from them.
        """
        return self.host_memory_mib // (4 if self.real is None else 8)


SIMULATED = DemoScale()


def of_this_machine(kind: GuestKind, cores: int, minute_s: float) -> DemoScale:
    """Return the scale for real guests on this machine, which run in real time."""
    return DemoScale(
        host_cores=cores, host_memory_mib=_REAL_MEMORY_MIB, minute_s=minute_s, real=kind
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of a demo."""

    seconds: float = 60.0
    """The duration of the demo, without its start. It lasts longer on a machine that is too slow
    for its speed."""
    seed: int = 1
    speed: float = 60.0
    """The cloud's seconds per real second; a period takes 60 of the cloud's."""
    hosts: int = 4
    strategy: str = DEFAULT
    scale: DemoScale = SIMULATED

    @property
    def takes_orders(self) -> bool:
        """Return whether the market takes limit orders: its strategy sells shares at a price."""
        entry = strategy_named(self.strategy)
        return entry.allocates is Allocation.SHARES and entry.charges is Charge.SHARES

    @property
    def cloud_speed(self) -> float:
        """Return the speed of the cloud's time; with real guests it is real time."""
        return self.speed if self.scale.real is None else 1.0

    @property
    def starting_credits(self) -> float:
        """Return more credits than a tenant can spend, but few enough to make spending visible."""
        minutes = self.seconds * self.cloud_speed / self.scale.minute_s
        return max(5_000.0, round(150 * minutes * self.hosts / 4, -3))
