"""The simulated cloud: nodes, market rules and costs of operations.

The default costs are the measurements of the utility-placement paper (its Table 1). A start has a
constant cost; the cost of other operations is proportional to the memory.
"""

from dataclasses import dataclass, field, fields

from merkatd.market.price import PriceRule
from merkatd.placement.contract import Allocation, Charge
from merkatd.placement.registry import STRATEGIES, strategy_named


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCosts:
    """The costs of operations, in seconds or seconds per MiB."""

    boot_s: float = 3.6
    suspend_s_per_mib: float = 0.0353
    resume_s_per_mib: float = 0.0333
    migrate_s_per_mib: float = 0.0132
    migrating_speed: float = 0.9
    """Part of its speed that a VM keeps during a migration."""
    thrashing: float = 2.0
    """Slowdown by lack of memory: a task with the part m of its needed memory runs at 1 -
    thrashing * (1 - m) of its speed, at least 0."""

    def suspend_s(self, memory_mib: float) -> float:
        """Return the time from the order until the VM is on disk; meanwhile it does no work."""
        return self.suspend_s_per_mib * memory_mib

    def resume_s(self, memory_mib: float) -> float:
        """Return the time from the order until the VM works again."""
        return self.resume_s_per_mib * memory_mib

    def migrate_s(self, memory_mib: float) -> float:
        """Return the time from the order until the VM is on the other host."""
        return self.migrate_s_per_mib * memory_mib

    def speed(self, memory_part: float) -> float:
        """Return the relative speed with this part of the needed memory."""
        return min(max(1.0 - self.thrashing * (1.0 - memory_part), 0.0), 1.0)


RESOURCES = ("cpu", "memory")
CORE = 100.0
"""Units of CPU of a core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCloud:
    """A market of equal nodes."""

    nodes: int
    cpu: float
    """Units of CPU of a node."""
    memory_mib: float
    strategy: str = "paper"
    rule: PriceRule = PriceRule.PAPER
    reserve_cpu: float = 1e-4
    """Least price of CPU, in credits per unit and period."""
    reserve_memory: float = 1e-6
    period_s: float = 60.0
    least_interval_s: float = 1.0
    """Least time between periods: an event starts a period early, but not before this. It is less
    than the daemon's default, as traces have jobs of a second with deadlines as short."""
    renewal_s: float = 3600.0
    """Time between renewals of budgets."""
    monitor_s: float = 1.0
    """Time between two looks of an application's monitor (`every_s` of `monitor`)."""
    memory_use: float = 1.0
    """The part of its memory that a task uses."""
    costs: OperationCosts = field(default_factory=OperationCosts)

    def __post_init__(self) -> None:
        strategy_named(self.strategy)
        if self.strategy not in strategies_with_prices():
            raise ValueError(
                f"strategy {self.strategy!r} can't be simulated with platforms that bid: it sells"
                f" no shares for prices; expected one of {', '.join(strategies_with_prices())}"
            )

    @property
    def cores(self) -> int:
        """Return the number of whole cores, for batch schedulers."""
        return self.nodes * int(self.cpu // CORE)

    @property
    def units(self) -> float:
        """Return the CPU of all nodes together, in units."""
        return self.nodes * self.cpu


def strategies_with_prices() -> tuple[str, ...]:
    """Return the strategies that divide hosts by bids, for prices: platforms can bid there."""
    return tuple(
        entry.name
        for entry in STRATEGIES.values()
        if entry.allocates is Allocation.SHARES
        and entry.charges is not Charge.NONE
        and any(setting.name == "pricing" for setting in fields(entry.settings))
    )


HPC2N = SimulatedCloud(nodes=120, cpu=200.0, memory_mib=2048.0)
"""Section 4.1.2: 120 nodes with two processors and 2 GB each."""
EDEL = SimulatedCloud(nodes=10, cpu=700.0, memory_mib=23.0 * 1024.0)
"""Section 4.2.1: 10 nodes, each with 700 units and 23 GB for VMs."""
