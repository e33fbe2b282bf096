"""Ledger: the accounts for code that must not block; each call is one transaction."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import uuid4

import sqlalchemy as sa

from merkatd.currency.credits import Month
from merkatd.currency.settings import MoneySettings
from merkatd.currency.statement import Statement
from merkatd.database.base.transactions import Transactions
from merkatd.database.ledger.budget_store import BudgetRow
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.database.ledger.note_store import recent as recent_notes
from merkatd.ledger import budgets, renewals, statements, tenants
from merkatd.ledger.bills import void_period
from merkatd.ledger.month_totals import MonthTotal, month_totals
from merkatd.ledger.tenants import TenantAccount

Result = TypeVar("Result")


class Ledger:
    """The accounts of all tenants, in micro-credits; refused calls raise LedgerError.

    Each reference is made outside its transaction. So a transaction that is retried moves nothing
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
        """Return the tenant; open an account for a new tenant, and store a new name or group."""
        at_s = self._now()

        def work(connection: sa.Connection) -> TenantAccount:
            tenants.open_tenant(connection, owner, self.money, at_s, name=name, group=group)
            return tenants.tenant(connection, owner)

        return await self._database.run(work)

    async def tenants(self) -> tuple[TenantAccount, ...]:
        """Return all tenants, by id."""
        return await self._database.read(tenants.tenants)

    async def tenant(self, owner: int) -> TenantAccount:
        """Return one tenant."""
        return await self._database.read(lambda c: tenants.tenant(c, owner))

    async def names(self, *, retired: bool = True) -> dict[int, str]:
        """Return all known names by id, with or without those of retired tenants."""
        return await self._database.read(lambda c: tenants.names(c, retired=retired))

    async def name(self, owner: int) -> str | None:
        """Return the name of a tenant, None if it is not known."""
        return await self._database.read(lambda c: tenants.name_of(c, owner))

    async def supply(self) -> int:
        """Return the total of all micro-credits."""
        return await self._database.read(tenants.supply_of)

    async def set_weight(self, owner: int, weight: float | None, who: str) -> TenantAccount:
        """Set a weight from the next renewal on; for administrators only."""
        at_s = self._now()

        def work(connection: sa.Connection) -> TenantAccount:
            tenants.set_weight(connection, owner, weight, who, at_s)
            renewals.keep_supply(connection, self.money, at_s)
            return tenants.tenant(connection, owner)

        return await self._database.run(work)

    async def set_group_weight(self, group: int, weight: float | None, who: str) -> None:
        """Set the weight of a group's tenants that have none of their own; administrators only."""
        at_s = self._now()

        def work(connection: sa.Connection) -> None:
            tenants.set_group_weight(connection, group, weight, who, at_s)
            renewals.keep_supply(connection, self.money, at_s)

        await self._database.run(work)

    async def grant(self, owner: int, amount: int, who: str) -> TenantAccount:
        """Move credits from the treasury to a tenant, or back; for administrators only."""
        at_s, reference = self._now(), uuid4().hex
        return await self._database.run(
            lambda c: tenants.grant(c, owner, amount, reference, who, at_s)
        )

    async def renew(self, who: str) -> int:
        """Renew now and return the amount paid out; for administrators only."""
        at_s, reference = self._now(), uuid4().hex
        return await self._database.run(lambda c: renewals.renew_once(c, reference, who, at_s))

    async def void(self, period: int, why: str, who: str) -> int:
        """Give back all charges of a period and return their sum; for administrators only."""
        at_s = self._now()
        return await self._database.run(lambda c: void_period(c, period, why, who, at_s))

    async def budget_of(self, application: int) -> BudgetRow:
        """Return the budget of an application; only its `owner` may change it."""
        return await self._database.read(lambda c: budgets.budget_of(c, application))

    async def budgets_of(self, owner: int | None = None) -> tuple[BudgetRow, ...]:
        """Return the budgets of a tenant's applications, or of all open applications."""
        return await self._database.read(lambda c: budgets.budgets_of(c, owner))

    async def set_budget(
        self, application: int, amount: int | None, replenishment: int | None, who: str
    ) -> BudgetRow:
        """Change the budget, the replenishment, or both; None leaves a value unchanged."""
        at_s, reference = self._now(), uuid4().hex
        return await self._database.run(
            lambda c: budgets.set_budget(
                c, application, amount, replenishment, reference, who, at_s
            )
        )

    async def statement(self, owner: int, month: Month) -> Statement:
        """Return a tenant's month, up to now if it has not ended."""
        return await self._database.read(lambda c: statements.statement(c, owner, month))

    async def month_totals(
        self, months: Sequence[Month], owner: int | None = None
    ) -> tuple[MonthTotal, ...]:
        """Return the totals of each month by tenant, of one tenant if `owner` is given."""
        return await self._database.read(lambda c: month_totals(c, months, owner))

    async def notes(
        self, limit: int = 50, kind: NoteKind | None = None, owner: int | None = None
    ) -> tuple[Note, ...]:
        """Return the notes of manual and policy changes of money, newest first."""
        return await self._database.read(lambda c: recent_notes(c, limit, kind=kind, owner=owner))
