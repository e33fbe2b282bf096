"""A tenant's statement of a month: what it held, what came and went, and what for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from merkatd.currency.credits import Month


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """What one VM used and was charged in the month; amounts are micro-credits."""

    vm: int
    name: str
    account: int
    """The account that paid: its owner's, or its application's."""
    seconds: float
    """For which it ran and was charged."""
    cpu_core_s: float
    """Cores that it was given x seconds,"""
    memory_gib_s: float
    """and GiB x seconds."""
    cpu_cost: int
    memory_cost: int
    network_mbit: float = 0.0
    """Mbit/s that it was given x seconds, where network was sold,"""
    disk_mib: float = 0.0
    """and MiB/s x seconds, where disks were."""
    network_cost: int = 0
    disk_cost: int = 0

    @property
    def cost(self) -> int:
        """For everything."""
        return self.cpu_cost + self.memory_cost + self.network_cost + self.disk_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A month of a tenant: its account and its applications' together, in micro-credits."""

    owner: int
    name: str | None
    group: int | None
    month: Month
    opening: int
    """Holdings when the month began."""
    movements: Mapping[str, int]
    """By kind of transaction: what came, or went where it is negative."""
    closing: int
    """Holdings when it ended, or now."""
    lines: Sequence[StatementLine]
    """By VM and payer; together they are what was charged."""
    missing: int
    """Owed in the month and not paid then: it became the tenant's debt."""
    debt: int = 0
    """What the tenant owes now, for this month and others."""

    @property
    def charged(self) -> int:
        """What all VMs cost."""
        return sum(line.cost for line in self.lines)

    @property
    def difference(self) -> int:
        """What the statement can't explain: zero."""
        unexplained = self.opening + sum(self.movements.values()) - self.closing
        return abs(unexplained) + abs(self.charged + self.movements.get("charge", 0))
