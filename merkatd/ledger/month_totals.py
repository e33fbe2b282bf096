"""The months of all tenants: what each used, paid and received."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.currency.credits import Month, day_of
from merkatd.database.ledger import month_store, usage_store
from merkatd.database.ledger.entry_store import TransactionKind
from merkatd.database.ledger.usage_store import DailyUse
from merkatd.ledger.statements import MOST_UNFOLDED, uses_of

_CORE, _GIB = 100.0, 1024.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthTotal:
    """A tenant's month: its own account and its applications' together, in micro-credits."""

    month: Month
    owner: int
    vms: int
    """The number of VMs that were charged."""
    seconds: float
    """The charged running time of all VMs together."""
    cpu_core_s: float
    memory_gib_s: float
    cpu_cost: int
    memory_cost: int
    network_cost: int
    disk_cost: int
    movements: Mapping[str, int]
    """The sum of the transactions of each kind; negative sums are outgoing."""

    @property
    def cost(self) -> int:
        """The cost of all VMs."""
        return self.cpu_cost + self.memory_cost + self.network_cost + self.disk_cost

    @property
    def difference(self) -> int:
        """The amount by which the costs of the VMs differ from the charges; always zero."""
        return self.cost + self.movements.get(TransactionKind.CHARGE, 0)


def month_totals(
    connection: sa.Connection, months: Sequence[Month], owner: int | None = None
) -> tuple[MonthTotal, ...]:
    """Return the totals of each month by tenant, of one tenant if `owner` is given.

    A tenant without any use or movement in a month is left out of it.
    """
    owners = month_store.owner_of_account(connection)
    fresh = uses_of(usage_store.unfolded(connection, MOST_UNFOLDED))
    totals: list[MonthTotal] = []
    for month in months:
        first, last = day_of(month.begin_s), day_of(month.end_s) - 1
        stored = month_store.uses_by_vm(connection, first, last, owner)
        uses = [*stored, *(use for use in fresh if first <= use.day <= last)]
        by_owner: dict[int, list[DailyUse]] = {}
        for use in uses:
            tenant = owners.get(use.account)
            if tenant is not None and owner in {None, tenant}:
                by_owner.setdefault(tenant, []).append(use)
        moved = month_store.moved_by_owner(connection, month.begin_s, month.end_s, owner)
        totals += [
            _total(month, tenant, by_owner.get(tenant, ()), moved.get(tenant, {}))
            for tenant in sorted(by_owner.keys() | moved.keys())
        ]
    return tuple(totals)


def _total(
    month: Month, owner: int, uses: Sequence[DailyUse], moved: Mapping[TransactionKind, int]
) -> MonthTotal:
    return MonthTotal(
        month=month,
        owner=owner,
        vms=len({use.vm for use in uses}),
        seconds=sum(use.seconds for use in uses),
        cpu_core_s=sum(use.cpu_s for use in uses) / _CORE,
        memory_gib_s=sum(use.memory_s for use in uses) / _GIB,
        cpu_cost=sum(use.cpu_cost for use in uses),
        memory_cost=sum(use.memory_cost for use in uses),
        network_cost=sum(use.network_cost for use in uses),
        disk_cost=sum(use.disk_cost for use in uses),
        movements={str(kind): amount for kind, amount in sorted(moved.items()) if amount},
    )
