"""The service of accounts: tenants, weights, grants, budgets and statements."""

from collections.abc import Callable, Mapping, Sequence

from merkatd.base.quantities import quoted_value
from merkatd.database.ledger import tenant_store
from merkatd.ledger import MICRO, BudgetRow, Ledger, Month, NoteKind, month_of
from merkatd.service.account_rows import (
    ApplicationBudget,
    CreditSupply,
    KnownNames,
    MoneyNote,
    TenantDetails,
    TenantStanding,
    TenantStatement,
    budget_of,
    note_of,
    standing_of,
)
from merkatd.service.base.callers import Caller, require_admin, require_tenant
from merkatd.service.base.errors import InvalidRequestError, UnknownObjectError
from merkatd.service.base.ledger_errors import ledger_errors_translated

MOST_WEIGHT = tenant_store.MOST_WEIGHT
NOTE_KINDS = tuple(str(kind) for kind in NoteKind)
"""The kinds of notes on money."""
_NEWEST_NOTES = 10
"""The notes in the details of a tenant."""


class AccountService:
    """The accounts of tenants; amounts in orders are micro-credits."""

    def __init__(
        self, ledger: Ledger, now: Callable[[], float], names: Callable[[], KnownNames]
    ) -> None:
        """`names` returns OpenNebula's present names of users and groups."""
        self._ledger = ledger
        self._now = now
        self._names = names

    async def supply(self, caller: Caller) -> CreditSupply:
        """Return the supply, the supply policy's last change, and all tenants."""
        require_admin(caller, "ADMIN USERS")
        tenants = await self._ledger.tenants()
        supply = await self._ledger.supply()
        changes = await self._ledger.notes(1, NoteKind.SUPPLY)
        held = sum(tenant.holdings for tenant in tenants)
        return CreditSupply(
            supply=supply / MICRO,
            treasury=(supply - held) / MICRO,
            changed_s=changes[0].at_s if changes else None,
            change=changes[0].text if changes else None,
            tenants=[standing_of(tenant, self._names()) for tenant in tenants],
        )

    async def tenants(self, caller: Caller) -> Sequence[TenantStanding]:
        """Return the tenants that the caller may see: all, also retired ones, or itself."""
        if caller.is_admin:
            names = self._names()
            return [standing_of(tenant, names) for tenant in await self._ledger.tenants()]
        try:
            return [await self.tenant(caller, caller.uid)]
        except UnknownObjectError:
            return []

    async def tenant(self, caller: Caller, owner: int) -> TenantStanding:
        """Return a tenant with its balances."""
        require_tenant(caller, owner)
        with ledger_errors_translated():
            return standing_of(await self._ledger.tenant(owner), self._names())

    async def details(self, caller: Caller, owner: int) -> TenantDetails:
        """Return a tenant with its applications and the latest notes."""
        standing = await self.tenant(caller, owner)
        budgets = await self._ledger.budgets_of(owner)
        notes = await self._ledger.notes(_NEWEST_NOTES, owner=owner)
        return TenantDetails(
            standing=standing,
            applications=[budget_of(budget, standing.name) for budget in budgets],
            notes=[note_of(note) for note in notes],
        )

    async def set_weight(self, caller: Caller, owner: int, weight: float | None) -> TenantStanding:
        """Set a tenant's weight from the next renewal on; None removes it."""
        require_admin(caller, f"ADMIN USER [{owner}]")
        with ledger_errors_translated():
            await self._ledger.meet(owner, self._names().users.get(owner))
            changed = await self._ledger.set_weight(owner, weight, caller.author)
        return standing_of(changed, self._names())

    async def set_group_weight(
        self, caller: Caller, group: int, weight: float | None
    ) -> CreditSupply:
        """Set the weight of a group of users from the next renewal on; None removes it."""
        require_admin(caller, f"ADMIN GROUP [{group}]")
        with ledger_errors_translated():
            await self._ledger.set_group_weight(group, weight, caller.author)
        return await self.supply(caller)

    async def grant(self, caller: Caller, owner: int, amount: int) -> TenantStanding:
        """Move an amount from the treasury to a tenant; a negative amount moves it back."""
        require_admin(caller, f"ADMIN USER [{owner}]")
        with ledger_errors_translated():
            await self._ledger.meet(owner, self._names().users.get(owner))
            return standing_of(
                await self._ledger.grant(owner, amount, caller.author), self._names()
            )

    async def renew(self, caller: Caller) -> float:
        """Renew all accounts now, and return the credits that were paid."""
        require_admin(caller, "ADMIN USERS")
        with ledger_errors_translated():
            return await self._ledger.renew(caller.author) / MICRO

    async def void(self, caller: Caller, period: int, why: str) -> float:
        """Refund the charges of a period, and return the credits; the ledger records `why`."""
        require_admin(caller, f"ADMIN PERIOD [{period}]")
        with ledger_errors_translated():
            return await self._ledger.void(period, why, caller.author) / MICRO

    async def budgets(
        self, caller: Caller, owner: int | None = None
    ) -> Sequence[ApplicationBudget]:
        """Return the budgets of a tenant's applications, or of all that have not ended."""
        if owner is None:
            require_admin(caller, "ADMIN USERS")
        else:
            require_tenant(caller, owner)
        budgets = await self._ledger.budgets_of(owner)
        if owner is not None:
            name = await self._ledger.name(owner)
            return [budget_of(budget, name) for budget in budgets]
        names = await self._ledger.names()
        return [budget_of(budget, names.get(budget.owner)) for budget in budgets]

    async def budget(self, caller: Caller, application: int) -> ApplicationBudget:
        """Return the budget of an application."""
        return await self._named(await self._budget(caller, application))

    async def set_budget(
        self, caller: Caller, application: int, amount: int | None, replenishment: int | None
    ) -> ApplicationBudget:
        """Change the budget, the replenishment, or both; None leaves a value unchanged."""
        await self._budget(caller, application)
        with ledger_errors_translated():
            changed = await self._ledger.set_budget(
                application, amount, replenishment, caller.author
            )
        return await self._named(changed)

    async def statement(
        self, caller: Caller, owner: int, month: Month | None = None
    ) -> TenantStatement:
        """Return a tenant's statement of a month; by default of the present month."""
        require_tenant(caller, owner)
        wanted = month_of(self._now()) if month is None else month
        with ledger_errors_translated():
            statement = await self._ledger.statement(owner, wanted)
        return TenantStatement(statement, self._names().group(statement.group))

    async def notes(
        self, caller: Caller, limit: int, kind: str | None = None
    ) -> Sequence[MoneyNote]:
        """Return the notes on money, by administrators and by policy, newest first."""
        require_admin(caller, "ADMIN USERS")
        wanted = None if kind is None else NoteKind(kind)
        return [note_of(note) for note in await self._ledger.notes(limit, wanted)]

    # -- names --------------------------------------------------------------------------------

    async def tenant_named(self, name: str, *, new: bool = False) -> int:
        """Return the id of the tenant; with `new`, also of a user that only OpenNebula knows."""
        present = await self._ledger.names(retired=False)
        # A retired tenant may have the name of a new tenant: then the name means the new tenant.
        there = present | (dict(self._names().users) if new else {})
        known = there if name in there.values() else await self._ledger.names()
        return _called(name, known)

    def group_named(self, name: str) -> int:
        """Return the id of the group of users."""
        known = [group for group, its in self._names().groups.items() if its == name]
        if len(known) != 1:
            raise InvalidRequestError(f"no group has the id or name {quoted_value(name)}")
        return known[0]

    # -- parts --------------------------------------------------------------------------------

    async def _budget(self, caller: Caller, application: int) -> BudgetRow:
        with ledger_errors_translated():
            budget = await self._ledger.budget_of(application)
        require_tenant(caller, budget.owner)
        return budget

    async def _named(self, budget: BudgetRow) -> ApplicationBudget:
        return budget_of(budget, await self._ledger.name(budget.owner))


def _called(name: str, names: Mapping[int, str | None]) -> int:
    known = [owner for owner, its in names.items() if its == name]
    if len(known) > 1:
        ids = ", ".join(map(str, sorted(known)))
        raise InvalidRequestError(
            f"several tenants have the name {quoted_value(name)}: use an id ({ids})"
        )
    if not known:
        raise InvalidRequestError(f"no tenant has the id or name {quoted_value(name)}")
    return known[0]
