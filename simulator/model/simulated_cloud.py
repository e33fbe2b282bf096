"""Nodes, market rules, what operations cost.

The defaults are those measured in the utility-placement paper (its Table 1): a start costs the
same whatever is started, the others go by the memory that has to be moved.
"""

from dataclasses import dataclass, field

from merkatd.market.price import PriceRule
from merkatd.placement.registry import strategy_named


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCosts:
    """Seconds, and seconds a MiB."""

    boot_s: float = 3.6
    suspend_s_per_mib: float = 0.0353
    resume_s_per_mib: float = 0.0333
    migrate_s_per_mib: float = 0.0132
    migrating_speed: float = 0.9
    """The part of its speed that a VM keeps while it is migrated."""
    thrashing: float = 2.0
    """How much a lack of memory hurts: a task that has the part m of the memory it needs runs
    at 1 - thrashing * (1 - m) of its speed, and not at all below 0."""

    def suspend_s(self, memory_mib: float) -> float:
        """From the order until the VM is on disk; it does not work any more meanwhile."""
        return self.suspend_s_per_mib * memory_mib

    def resume_s(self, memory_mib: float) -> float:
        """From the order until it works again."""
        return self.resume_s_per_mib * memory_mib

    def migrate_s(self, memory_mib: float) -> float:
        """From the order until it is on the other host."""
        return self.migrate_s_per_mib * memory_mib

    def speed(self, memory_part: float) -> float:
        """With this part of the memory it needs."""
        return min(max(1.0 - self.thrashing * (1.0 - memory_part), 0.0), 1.0)


RESOURCES = ("cpu", "memory")
CORE = 100.0
"""Units of CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCloud:
    """A market of equal nodes."""

    nodes: int
    cpu: float
    """Units of a node."""
    memory_mib: float
    strategy: str = "paper"
    rule: PriceRule = PriceRule.PAPER
    reserve_cpu: float = 1e-4
    """Credits for a unit and period, at least."""
    reserve_memory: float = 1e-6
    period_s: float = 60.0
    least_interval_s: float = 1.0
    """Where something happens a period begins early, but no sooner than this after the last.
    Less than the daemon's default: traces have jobs of a second whose deadlines are as short."""
    renewal_s: float = 3600.0
    """How often budgets are filled up."""
    costs: OperationCosts = field(default_factory=OperationCosts)

    def __post_init__(self) -> None:
        strategy_named(self.strategy)

    @property
    def cores(self) -> int:
        """What batch schedulers divide: whole cores."""
        return self.nodes * int(self.cpu // CORE)

    @property
    def units(self) -> float:
        """CPU of all nodes together."""
        return self.nodes * self.cpu


HPC2N = SimulatedCloud(nodes=120, cpu=200.0, memory_mib=2048.0)
"""Section 4.1.2: 120 nodes with two processors and 2 GB each."""
EDEL = SimulatedCloud(nodes=10, cpu=700.0, memory_mib=23.0 * 1024.0)
"""Section 4.2.1: 10 nodes, each with 700 units and 23 GB for VMs."""
