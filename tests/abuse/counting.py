"""What guests really computed, as their hosts count it, and what their owners were charged."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from merkatd.currency import MICRO
from merkatd.database.ledger.account_store import ACCOUNTS
from merkatd.database.ledger.entry_store import ENTRIES, TRANSACTIONS, TransactionKind
from tests.platforms.site import Site
from tests.scheduler.frontend import START_S

_OWN_MOVES = (
    TransactionKind.INCOME,
    TransactionKind.GRANT,
    TransactionKind.BUDGET,
    TransactionKind.REPLENISHMENT,
    TransactionKind.CORRECTION,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a strategy."""

    core_s: float
    ran_s: float
    """The total running time of the player's VMs."""
    paid: float
    fair_core_s: float
    fair_paid: float
    fair_bids: float
    """The total of the honest tenants' bids."""

    @property
    def price_ratio(self) -> float:
        """Return the player's price of a core-second relative to the honest tenants' price.

        No host enforces less than a hundredth of a core, so that much a VM counts as free.
        """
        bought_s = self.core_s - 0.01 * self.ran_s
        return (self.paid / bought_s) / (self.fair_paid / self.fair_core_s)

    @property
    def got_something(self) -> bool:
        """Return whether the player computed more than a host must let it compute.

        A host enforces no less than a hundredth of a core for each VM.
        """
        return self.core_s > 8.0 and self.core_s > 0.012 * self.ran_s


class CountingSite(Site):
    """A cloud with a daemon that counts the guests' work and the tenants' charges."""

    def __init__(self, **options: Any) -> None:
        """Start the cloud and the daemon; all counts are zero."""
        super().__init__(**options)
        self.core_s: dict[int, float] = defaultdict(float)
        """The core-seconds of each VM's guest, over all its boots."""
        self.ran_s: dict[int, float] = defaultdict(float)
        """The seconds for which each VM's guest ran."""
        self._sampled_s = START_S
        self._counter: dict[int, float] = {}
        self._before: dict[int, float] = {}
        self.begun_s = self.clock.seconds()

    def sample(self) -> None:
        """Count the core-seconds of all guests since the last call."""
        for vm, usage in self.cloud.guests.read().items():
            self.ran_s[vm] += max(self.clock.seconds() - self._sampled_s, 0.0)
            before = self._counter.get(vm, 0.0)
            self.core_s[vm] += usage.cpu_s - before if usage.cpu_s >= before else usage.cpu_s
            self._counter[vm] = usage.cpu_s
        self._sampled_s = self.clock.seconds()

    def begin_counter(self, vm: int) -> None:
        """Count the work of the VM's new domain from zero."""
        self._counter[vm] = 0.0

    def _reset_counts(self, players: Sequence[int]) -> None:
        """Start all counts from zero."""
        self.core_s.clear()
        self.ran_s.clear()
        self.begun_s = self._sampled_s
        self._before = {owner: self.paid(owner) for owner in (self.ann, self.bob, *players)}

    def paid(self, owner: int) -> float:
        """Return the credits charged to the tenant's accounts, ended platforms included."""

        def total(connection: sa.Connection) -> int:
            amount = sa.func.coalesce(sa.func.sum(ENTRIES.c.amount), 0)
            joined = ENTRIES.join(ACCOUNTS, ACCOUNTS.c.id == ENTRIES.c.account_id).join(
                TRANSACTIONS, TRANSACTIONS.c.id == ENTRIES.c.transaction_id
            )
            mine = ACCOUNTS.c.owner == owner
            use = TRANSACTIONS.c.kind.not_in([str(kind) for kind in _OWN_MOVES])
            query = sa.select(amount).select_from(joined).where(mine & use)
            return int(connection.scalar(query) or 0)

        lost: int = self.read(total)
        return -lost / MICRO

    def computed(self, *owners: int) -> float:
        """Return the core-seconds of these tenants' VMs."""
        return self._sum(self.core_s, owners)

    def _sum(self, by_vm: Mapping[int, float], owners: Sequence[int]) -> float:
        rows = self.cloud.world.vms.rows
        return sum(amount for vm, amount in by_vm.items() if rows[vm].uid in owners)

    def _spent(self, *owners: int) -> float:
        return sum(self.paid(owner) - self._before.get(owner, 0.0) for owner in owners)
