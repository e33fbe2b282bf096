"""Decision: what a strategy returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from merkatd.cluster.arrays import Floats, frozen
from merkatd.cluster.plan import Plan


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The steps to take, and what everybody gets and pays once they are taken."""

    plan: Plan
    allocations: Floats
    """[vms, resources]: what each VM gets on the host that the plan gives it. As long as its
    migration is not begun, a VM gets of all but memory what it has on the host where it is."""
    prices: Floats
    """[markets, resources]: credits per unit and period; infinite where no price clears."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """By VM id: why a VM stays pending, or why what was needed for it can't be done."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """The strategy's own, serialisable, handed back to it in the next period."""

    failed: Mapping[str, str] = field(default_factory=dict)
    """By market: how its strategy failed. Its VMs stay where they are."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "allocations", frozen(self.allocations))
        object.__setattr__(self, "prices", frozen(self.prices))
