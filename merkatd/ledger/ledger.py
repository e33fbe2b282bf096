"""Ledger: the accounts for code that must not block; each call is one transaction."""

from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

import sqlalchemy as sa

from merkatd.currency.credits import Month
from merkatd.currency.settings import MoneySettings
from merkatd.currency.statement import Statement
from merkatd.database.base.transactions import Transactions
from merkatd.database.ledger.budget_store import BudgetRow
from merkatd.database.ledger.entry_store import EntryRow
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.database.ledger.note_store import recent as recent_notes
from merkatd.ledger import budgets, renewals, statements, tenants
from merkatd.ledger.bills import void_period
from merkatd.ledger.tenants import TenantAccount

Result = TypeVar("Result")


class Ledger:
    """The accounts of all tenants. Amounts are micro-credits; LedgerError says what was wrong.

    A reference is made outside each transaction, so that one that is run again moves nothing
    twice.
    """

    def __init__(
        self, database: Transactions, now: Callable[[], float], money: MoneySettings | None = None
    ) -> None:
        self._database = database
        self._now = now
        self.money = money or MoneySettings()

    async def meet(
        self, owner: int, name: str | None = None, group: int | None = None
    ) -> TenantAccount:
        """Know a tenant, who is opened an account where it is new, and what is new of it."""
        at_s = self._now()

        def work(connection: sa.Connection) -> TenantAccount:
            tenants.open_tenant(connection, owner, self.money, at_s, name=name, group=group)
            return tenants.tenant(connection, owner)

        return await self._database.run(work)

    async def tenants(self) -> tuple[TenantAccount, ...]:
        """All tenants, by id."""
        return await self._database.read(tenants.tenants)

    async def tenant(self, owner: int) -> TenantAccount:
        """One tenant."""
        return await self._database.read(lambda c: tenants.tenant(c, owner))

    async def names(self, *, retired: bool = True) -> dict[int, str]:
        """By id: the names of all tenants whose name is known; with or without the retired ones."""
        return await self._database.read(lambda c: tenants.names(c, retired=retired))

    async def supply(self) -> int:
        """All micro-credits there are."""
        return await self._database.read(tenants.supply_of)

    async def set_weight(self, owner: int, weight: float | None, who: str) -> TenantAccount:
        """For administrators alone: a weight that counts from the next renewal on."""
        at_s = self._now()

        def work(connection: sa.Connection) -> TenantAccount:
            tenants.set_weight(connection, owner, weight, who, at_s)
            renewals.keep_supply(connection, self.money, at_s)
            return tenants.tenant(connection, owner)

        return await self._database.run(work)

    async def set_group_weight(self, group: int, weight: float | None, who: str) -> None:
        """For administrators alone: the weight of a group's tenants that have none themselves."""
        at_s = self._now()

        def work(connection: sa.Connection) -> None:
            tenants.set_group_weight(connection, group, weight, who, at_s)
            renewals.keep_supply(connection, self.money, at_s)

        await self._database.run(work)

    async def grant(self, owner: int, amount: int, who: str) -> TenantAccount:
        """For administrators alone: from the treasury to a tenant, or back."""
        at_s, reference = self._now(), uuid4().hex
        return await self._database.run(
            lambda c: tenants.grant(c, owner, amount, reference, who, at_s)
        )

    async def renew(self, who: str) -> int:
        """For administrators alone: a renewal now; what it paid out."""
        at_s = self._now()
        return await self._database.run(lambda c: renewals.renew(c, who, at_s))

    async def void(self, period: int, why: str, who: str) -> int:
        """For administrators alone: give back all charges of a period; how much that was."""
        at_s = self._now()
        return await self._database.run(lambda c: void_period(c, period, why, who, at_s))

    async def open_application(
        self, owner: int, name: str, initial: int, replenishment: int = 0
    ) -> BudgetRow:
        """A new application of a tenant with a budget from its account."""
        at_s = self._now()
        return await self._database.run(
            lambda c: budgets.open_application(c, owner, name, initial, replenishment, at_s)
        )

    async def budget_of(self, application: int) -> BudgetRow:
        """The budget of an application; its `owner` is who may change it."""
        return await self._database.read(lambda c: budgets.budget_of(c, application))

    async def budgets_of(self, owner: int | None = None) -> tuple[BudgetRow, ...]:
        """Of a tenant's applications, or of all that are not over."""
        return await self._database.read(lambda c: budgets.budgets_of(c, owner))

    async def set_budget(
        self, application: int, amount: int | None, replenishment: int | None, who: str
    ) -> BudgetRow:
        """Another budget, replenishment, or both; None leaves it as it is."""
        at_s, reference = self._now(), uuid4().hex
        return await self._database.run(
            lambda c: budgets.set_budget(
                c, application, amount, replenishment, reference, who, at_s
            )
        )

    async def end_application(self, application: int) -> int:
        """The application is over; what went back to its tenant."""
        at_s = self._now()
        return await self._database.run(lambda c: budgets.end_application(c, application, at_s))

    async def statement(self, owner: int, month: Month) -> Statement:
        """A tenant's month, up to now where it is not over."""
        return await self._database.read(lambda c: statements.statement(c, owner, month))

    async def balance(self, account: int) -> int:
        """What an account holds."""
        return await self._database.read(lambda c: tenants.balance(c, account))

    async def history(self, account: int, since_s: float, until_s: float) -> tuple[EntryRow, ...]:
        """The entries of an account from one time up to and without another, oldest first."""
        return await self._database.read(lambda c: tenants.history(c, account, since_s, until_s))

    async def notes(
        self, limit: int = 50, kind: NoteKind | None = None, owner: int | None = None
    ) -> tuple[Note, ...]:
        """What was done with money by hand and by policy, newest first."""
        return await self._database.read(lambda c: recent_notes(c, limit, kind=kind, owner=owner))
