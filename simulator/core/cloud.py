"""What is simulated: the nodes, the market's rules and rhythm, what operations cost."""

from dataclasses import dataclass, field

from merkatd.market.price import PriceRule
from merkatd.placement.registry import strategy_named
from simulator.costs import Costs

RESOURCES = ("cpu", "memory")
CORE = 100.0
"""Units of CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
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
    costs: Costs = field(default_factory=Costs)

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


HPC2N = Cloud(nodes=120, cpu=200.0, memory_mib=2048.0)
"""Section 4.1.2: 120 nodes with two processors and 2 GB each."""
EDEL = Cloud(nodes=10, cpu=700.0, memory_mib=23.0 * 1024.0)
"""Section 4.2.1: 10 nodes, each with 700 units and 23 GB for VMs."""
