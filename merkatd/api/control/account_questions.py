"""The control socket's questions about tenants, weights, grants, budgets and statements."""

from typing import Any

from merkatd.api.values.plain_values import members
from merkatd.base.quantities import quoted_value
from merkatd.currency import MICRO, MOST_CREDITS, micro
from merkatd.currency.credits import Month, parse_month
from merkatd.service.account_rows import CreditSupply, TenantStatement, further_goods
from merkatd.service.accounts import MOST_WEIGHT, NOTE_KINDS, AccountService
from merkatd.service.base.arguments import LONGEST_NAME, Arguments, number, one_of, text, whole
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import InvalidRequestError

Row = dict[str, Any]
"""An answer for JSON."""


class AccountQuestions:
    """The questions about tenants and credits."""

    def __init__(self, accounts: AccountService) -> None:
        self._accounts = accounts
        self.known = {
            "tenants": self._tenants,
            "tenant": self._tenant,
            "tenant_weight": self._weight,
            "tenant_grant": self._grant,
            "renew": self._renew,
            "void": self._void,
            "budgets": self._budgets,
            "budget": self._budget,
            "statement": self._statement,
            "money_notes": self._notes,
        }

    async def _tenants(self, _arguments: Arguments) -> Row:
        """Return active and retired tenants, the supply, and the supply policy's last change."""
        return _supply_row(await self._accounts.supply(LOCAL))

    async def _tenant(self, arguments: Arguments) -> Row:
        """Return `tenant`, an id or a name, with its applications and the latest notes."""
        details = await self._accounts.details(LOCAL, await tenant_of(self._accounts, arguments))
        return members(details.standing) | {
            "applications": [members(application) for application in details.applications],
            "notes": [members(note) for note in details.notes],
        }

    async def _weight(self, arguments: Arguments) -> Row:
        """Set the `weight` of a `tenant` or of a `group`; null removes it."""
        weight = number(arguments, "weight", MOST_WEIGHT)
        group = self._group(arguments)
        if group is not None:
            return _supply_row(await self._accounts.set_group_weight(LOCAL, group, weight))
        owner = await tenant_of(self._accounts, arguments, new=True)
        return members(await self._accounts.set_weight(LOCAL, owner, weight))

    async def _grant(self, arguments: Arguments) -> Row:
        """Move `credits` from the treasury to a `tenant`; a negative amount moves them back."""
        amount = arguments.get("credits")
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise InvalidRequestError(f"credits: must be a number (got {quoted_value(amount)})")
        if not abs(amount) <= MOST_CREDITS:
            raise InvalidRequestError(
                f"credits: must be at most {MOST_CREDITS:,.0f} (got {quoted_value(amount)})"
            )
        owner = await tenant_of(self._accounts, arguments, new=True)
        return members(await self._accounts.grant(LOCAL, owner, micro(float(amount))))

    async def _renew(self, _arguments: Arguments) -> Row:
        """Renew all accounts now; the next automatic renewal comes an interval from now."""
        paid = await self._accounts.renew(LOCAL)
        return {"paid": paid} | _supply_row(await self._accounts.supply(LOCAL))

    async def _void(self, arguments: Arguments) -> Row:
        """Refund the charges of `period`; the ledger records `why`."""
        period = whole(arguments, "period")
        why = text(arguments, "why")
        if period is None or why is None:
            raise InvalidRequestError(
                "period, why: must be a period's number and the reason to void it"
            )
        return {"period": period, "credits": await self._accounts.void(LOCAL, period, why)}

    async def _budgets(self, arguments: Arguments) -> list[Row]:
        """Return the budgets of a `tenant`, or of all applications that have not ended."""
        owner = None
        if arguments.get("tenant") is not None:
            owner = await tenant_of(self._accounts, arguments)
            await self._accounts.tenant(LOCAL, owner)
        return [members(budget) for budget in await self._accounts.budgets(LOCAL, owner)]

    async def _budget(self, arguments: Arguments) -> Row:
        """Return the budget of `application`; change it if `amount` or `replenishment` is given."""
        application = whole(arguments, "application")
        if application is None:
            raise InvalidRequestError("application: must be the id of an application")
        amount = _micro(arguments, "amount")
        refill = _micro(arguments, "replenishment")
        if amount is None and refill is None:
            return members(await self._accounts.budget(LOCAL, application))
        return members(await self._accounts.set_budget(LOCAL, application, amount, refill))

    async def _statement(self, arguments: Arguments) -> Row:
        """Return the statement of a `tenant` for `month`, like 2026-05 (default: this month)."""
        owner = await tenant_of(self._accounts, arguments)
        await self._accounts.tenant(LOCAL, owner)
        return statement_row(await self._accounts.statement(LOCAL, owner, _month(arguments)))

    async def _notes(self, arguments: Arguments) -> list[Row]:
        """Return the notes on money, by administrators and by policy, newest first."""
        kind = one_of(arguments, "kind", NOTE_KINDS)
        limit = whole(arguments, "limit") or 50
        return [members(note) for note in await self._accounts.notes(LOCAL, limit, kind)]

    def _group(self, arguments: Arguments) -> int | None:
        """Return the id of `group`, an id or a name, or None if it is not given."""
        wanted = arguments.get("group")
        if not isinstance(wanted, str):
            return whole(arguments, "group")
        if wanted.isascii() and wanted.isdigit() and len(wanted) <= LONGEST_NAME:
            return whole({"group": int(wanted)}, "group")
        return self._accounts.group_named(wanted)


async def tenant_of(accounts: AccountService, arguments: Arguments, *, new: bool = False) -> int:
    """Return the id of `tenant`, an id or a name; with `new`, also of users without an account."""
    wanted = arguments.get("tenant")
    if isinstance(wanted, str) and not (wanted.isascii() and wanted.isdigit()):
        return await accounts.tenant_named(text(arguments, "tenant") or "", new=new)
    if isinstance(wanted, str) and len(wanted) <= LONGEST_NAME:
        wanted = int(wanted)
    owner = whole({"tenant": wanted}, "tenant")
    if owner is None:
        raise InvalidRequestError("tenant: must be the id or the name of a user")
    return owner


def _micro(arguments: Arguments, name: str) -> int | None:
    credits_ = number(arguments, name, MOST_CREDITS)
    return None if credits_ is None else micro(credits_)


def _month(arguments: Arguments) -> Month | None:
    wanted = text(arguments, "month")
    if wanted is None:
        return None
    try:
        return parse_month(wanted)
    except ValueError as error:
        raise InvalidRequestError(f"month: {error}") from None


def _supply_row(supply: CreditSupply) -> Row:
    """Return the supply, with active and retired tenants apart."""
    return members(supply) | {
        "tenants": [members(tenant) for tenant in supply.tenants if tenant.retired_s is None],
        "retired": [members(tenant) for tenant in supply.tenants if tenant.retired_s is not None],
    }


def statement_row(statement: TenantStatement) -> Row:
    """Return a statement, in credits and in micro-credits that add up exactly."""
    month = statement.month
    return {
        "id": month.owner,
        "name": month.name,
        "group": month.group,
        "group_name": statement.group_name,
        "month": str(month.month),
        "opening": month.opening,
        "movements": dict(month.movements),
        "closing": month.closing,
        "charged": month.charged,
        "missing": month.missing,
        "debt": month.debt,
        "difference": month.difference,
        "lines": [
            {
                "uid": month.owner,
                "user_name": month.name,
                "gid": month.group,
                "group_name": statement.group_name,
                "vm_id": line.vm,
                "vm_name": line.name,
                "month": month.month.month,
                "year": month.month.year,
                "hours": line.seconds / 3600,
                "running_hours": line.seconds / 3600,
                "cpu_hours": line.cpu_core_s / 3600,
                "memory_hours": line.memory_gib_s / 3600,
                "account": line.account,
                "cpu_cost": line.cpu_cost / MICRO,
                "memory_cost": line.memory_cost / MICRO,
                **further_goods(line),
                "cost": line.cost / MICRO,
                "micro": line.cost,
            }
            for line in month.lines
        ],
    }
