"""Balances of the payers: a tenant pays for its own VMs, an application for its VMs."""

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.currency import MICRO
from merkatd.database.ledger import account_store, budget_store
from merkatd.database.ledger.account_store import AccountKind, AccountRow


@dataclass(frozen=True, slots=True)
class PayerBalances:
    """All paying accounts: those of tenants, and of applications that have not ended."""

    tenants: Mapping[int, AccountRow]
    """The tenants' accounts by owner."""
    applications: Mapping[int, AccountRow]
    """The applications' accounts by id."""

    def name(self, application: int) -> str | None:
        """Return the name of an application, or None."""
        account = self.applications.get(application)
        return None if account is None else account.name

    def credits(self, owner: int, application: int) -> float | None:
        """Return the balance of the payer of a VM, or None without an account.

        `application` is -1 for a VM of no application.
        """
        account = self.applications.get(application)
        if account is None or account.owner != owner:
            account = self.tenants.get(owner)
        return None if account is None else account.balance / MICRO


def payer_credits(connection: sa.Connection, owner: int, application: int) -> float | None:
    """Return the balance of the payer of one VM: the same as `payer_balances(...).credits(...)`.

    It reads no other accounts: each tenant may ask this often, of a cloud with thousands of them.
    """
    budget = budget_store.get(connection, application)
    if budget is not None and budget.ended_s is None and budget.owner == owner:
        return budget.balance / MICRO
    account = account_store.find(connection, AccountKind.TENANT, owner)
    return None if account is None else account.balance / MICRO


def payer_balances(connection: sa.Connection) -> PayerBalances:
    """Return the paying accounts as they are now."""
    tenants = account_store.every(connection, AccountKind.TENANT)
    return PayerBalances(
        tenants={tenant.owner: tenant for tenant in tenants if tenant.owner is not None},
        applications={account.id: account for account in budget_store.open_accounts(connection)},
    )
