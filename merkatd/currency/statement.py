"""A tenant's monthly statement: holdings, movements, and the charges of each VM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from merkatd.currency.credits import Month


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLine:
    """The use and the charges of one VM in the month; amounts are micro-credits."""

    vm: int
    name: str
    account: int
    """The account that paid: the owner's or the application's."""
    seconds: float
    """The charged running time."""
    cpu_core_s: float
    """Allocated cores x seconds."""
    memory_gib_s: float
    """Allocated GiB of memory x seconds."""
    cpu_cost: int
    memory_cost: int
    network_mbit: float = 0.0
    """Allocated Mbit/s x seconds, where network is sold."""
    disk_mib: float = 0.0
    """Allocated MiB/s of disk x seconds, where disk is sold."""
    network_cost: int = 0
    disk_cost: int = 0

    @property
    def cost(self) -> int:
        """The total cost of the VM."""
        return self.cpu_cost + self.memory_cost + self.network_cost + self.disk_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A tenant's month: its own account and its applications' together, in micro-credits."""

    owner: int
    name: str | None
    group: int | None
    month: Month
    opening: int
    """The holdings at the start of the month."""
    movements: Mapping[str, int]
    """The sum of the transactions of each kind; negative sums are outgoing."""
    closing: int
    """The holdings at the end of the month, or now."""
    lines: Sequence[StatementLine]
    """Lines by VM and payer; their sum is the amount charged."""
    missing: int
    """The charges of the month that were not paid then and became debt."""
    debt: int = 0
    """The tenant's present debt, from this month and others."""

    @property
    def charged(self) -> int:
        """The total cost of all VMs."""
        return sum(line.cost for line in self.lines)

    @property
    def difference(self) -> int:
        """The amount that the statement can't explain; always zero."""
        unexplained = self.opening + sum(self.movements.values()) - self.closing
        return abs(unexplained) + abs(self.charged + self.movements.get("charge", 0))
