"""How a tenant's credits changed: what it has now, and each change since a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.currency import MICRO
from merkatd.database.ledger import account_store, entry_store
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import Caller, require_tenant
from merkatd.service.base.read_runner import ReadRunner, run_at_once


@dataclass(frozen=True, slots=True)
class BalanceMovement:
    """A change of the credits of a tenant."""

    at_s: float
    credits: float


@dataclass(frozen=True, slots=True)
class BalanceChanges:
    """The credits in all accounts of a tenant, and their changes since a time."""

    credits: float
    movements: Sequence[BalanceMovement]


class BalanceHistory:
    """The changes of tenants' credits."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def changes(
        self, caller: Caller, owner: int, since_s: float, run: ReadRunner = run_at_once
    ) -> BalanceChanges:
        """Return a tenant's credits and their changes since a time. Raise NotPermittedError."""
        require_tenant(caller, owner)

        def read(connection: sa.Connection) -> BalanceChanges:
            return balance_changes(connection, owner, since_s)

        return await run(lambda: self._scheduler.world.database.read(read))


def balance_changes(connection: sa.Connection, owner: int, since_s: float) -> BalanceChanges:
    """Return the credits in all accounts of a tenant, and their changes since a time."""
    moved = entry_store.moved_of_owner(connection, owner, since_s)
    return BalanceChanges(
        account_store.held_by(connection, owner) / MICRO,
        [BalanceMovement(at_s, amount / MICRO) for at_s, amount in moved],
    )
