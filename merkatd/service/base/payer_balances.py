"""Who pays for what, and with how much: tenants for their own VMs, applications for theirs."""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.currency import MICRO
from merkatd.database.ledger import account_store, budget_store
from merkatd.database.ledger.account_store import AccountKind, AccountRow


@dataclass(frozen=True, slots=True)
class Purses:
    """All accounts that pay: those of tenants, and of applications that are not over."""

    tenants: Mapping[int, AccountRow]
    """By owner."""
    applications: Mapping[int, AccountRow]
    """By id."""

    def name(self, application: int) -> str | None:
        """What an application is called."""
        found = self.applications.get(application)
        return None if found is None else found.name

    def credits(self, owner: int, application: int) -> float | None:
        """What is left to pay with for a VM of this owner and application, -1 for none."""
        account = self.applications.get(application)
        if account is None or account.owner != owner:
            account = self.tenants.get(owner)
        return None if account is None else account.balance / MICRO


def purses(connection: sa.Connection) -> Purses:
    """As they are now."""
    tenants = account_store.every(connection, AccountKind.TENANT)
    return Purses(
        tenants={one.owner: one for one in tenants if one.owner is not None},
        applications={one.id: one for one in budget_store.open_accounts(connection)},
    )
