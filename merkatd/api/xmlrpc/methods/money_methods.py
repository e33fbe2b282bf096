"""The methods about money: tenants, their applications' budgets, and statements."""

from collections.abc import Iterable, Mapping
from typing import Any

from merkatd.api.xmlrpc.method_table import SELF, Parameter, method, struct, structs
from merkatd.base.quantities import shown
from merkatd.ledger import (
    MICRO,
    MOST_CREDITS,
    BudgetRow,
    Month,
    Statement,
    TenantAccount,
    micro,
    month_of,
    parse_month,
)
from merkatd.service.account_rows import budget_row, further, standing_row
from merkatd.service.base.arguments import number
from merkatd.service.base.errors import QuestionError
from merkatd.service.base.identity import Caller, need_tenant
from merkatd.service.services import DaemonServices

_TENANT = Parameter(
    "tenant", "int", "The user's id; -1, which is meant unless said, is oneself.", SELF
)
_STANDING = {
    "id": "The user,",
    "name": "and its name, where it is known.",
    "group": "Its primary group,",
    "group_name": "and the name of that.",
    "weight": "Its weight in the division of all credits.",
    "entitlement": "What a renewal tops its holdings up to.",
    "balance": "What its own account holds,",
    "in_applications": "and what its applications hold.",
    "reserved": "The part of its own account that is reserved for charges.",
    "debt": "What it owes for earlier periods.",
}
_BUDGET = {
    "application": "The application's id,",
    "name": "its name,",
    "owner": "the tenant whose it is,",
    "owner_name": "and what that is called, where it is known.",
    "budget": "What replenishment never lifts the balance above.",
    "replenishment": "What is added at every replenishment.",
    "balance": "What it holds.",
    "reserved": "The part of the balance that is reserved for charges, and can't be moved.",
    "debt": "What its owner owes for earlier periods, whichever account was short.",
    "opened_s": "When it was opened, in seconds since the epoch,",
    "ended_s": "and when it ended, if it has.",
}


@method(
    "merkat.tenant.info",
    _TENANT,
    returns=struct("The tenant; amounts in credits.", _STANDING),
    example="",
)
async def tenant_info(house: DaemonServices, caller: Caller, tenant: int) -> Any:
    """What a tenant holds and is entitled to."""
    return _standing(house, await house.ledger.tenant(_whose(caller, tenant)))


@method(
    "merkat.tenant.list",
    returns=structs("Every tenant that the caller may see.", _STANDING),
    example="",
)
async def tenant_list(house: DaemonServices, caller: Caller) -> Any:
    """All tenants for administrators, oneself for others."""
    found = await house.ledger.tenants()
    who = caller.identity
    return [_standing(house, one) for one in found if who.is_admin or one.owner == who.uid]


@method(
    "merkat.budget.info",
    _TENANT,
    returns=structs("A struct an application; amounts in credits.", _BUDGET),
    example="",
)
async def budget_info(house: DaemonServices, caller: Caller, tenant: int) -> Any:
    """The budgets of a tenant's applications, also of those that are over."""
    found = await house.ledger.budgets_of(_whose(caller, tenant))
    return await _budgets(house, found)


@method(
    "merkat.budget.set",
    Parameter("application", "int", "The application's id."),
    Parameter(
        "change",
        "struct",
        "`budget` and `replenishment`, in credits; what is left out stays. With a new budget the"
        " balance becomes that: what it lacks comes from the tenant's account, the rest goes back.",
    ),
    returns=struct("The application as it is then; amounts in credits.", _BUDGET),
    example='application, {"budget": 500.0, "replenishment": 20.0}',
    order=1.0,
)
async def budget_set(
    house: DaemonServices, caller: Caller, application: int, change: Mapping[str, Any]
) -> Any:
    """Change what an application may spend."""
    for name in change:
        if name not in {"budget", "replenishment"}:
            raise QuestionError(f"change: {shown(name)}: only budget, replenishment are right")
    amount, replenishment = (_micro(change, name) for name in ("budget", "replenishment"))
    if amount is None and replenishment is None:
        raise QuestionError("change: budget, replenishment or both are right")
    found = await house.ledger.budget_of(application)
    need_tenant(caller.identity, found.owner)
    who = f"user {caller.identity.uid}"
    after = await house.ledger.set_budget(application, amount, replenishment, who)
    return (await _budgets(house, [after]))[0]


@method(
    "merkat.statement.info",
    _TENANT,
    Parameter("month", "string", "The month, as `2026-05`; the present one unless said.", ""),
    returns=struct(
        "The month; amounts in credits.",
        {
            "id": "The tenant,",
            "name": "and its name, where it is known.",
            "month": "The month, from midnight to midnight UTC.",
            "opening": "What the tenant and its applications held when it began,",
            "closing": "and when it ended, or now.",
            "charged": "What all its VMs cost.",
            "missing": "What was owed and could not be paid then: it became the tenant's debt.",
            "debt": "What the tenant owes now.",
            "movements": "By kind, what came, or went where it is negative: a struct.",
            "vms": "By VM and payer, a struct:",
        },
        {
            "vm": "The VM,",
            "name": "and its name.",
            "account": "The account that paid.",
            "hours": "For how long it ran and was charged.",
            "cpu_core_hours": "Cores that it was given x hours,",
            "memory_gib_hours": "and GiB x hours.",
            "cpu_cost": "What its CPU cost,",
            "memory_cost": "and its memory.",
            "network_mbit_hours": "Mbit/s that it was given x hours,",
            "network_cost": "and what they cost,",
            "disk_mib_hours": "MiB/s that it was given x hours,",
            "disk_cost": "and what they cost; all four are left out where they were not sold.",
            "total_cost": "All together.",
        },
    ),
    example="",
)
async def statement_info(house: DaemonServices, caller: Caller, tenant: int, month: str) -> Any:
    """What a tenant held, got and paid in a month, and what for."""
    owner, wanted = _whose(caller, tenant), _month(house, month)

    async def read() -> Any:
        found = await house.ledger.statement(owner, wanted)
        return await house.world.executor.run(lambda: _statement(found))

    return await house.long_reads.run(caller.identity.uid, read)


def _whose(caller: Caller, tenant: int) -> int:
    """The tenant that is meant, once it is settled that the caller may see it. Raises Refusal."""
    owner = caller.identity.uid if tenant == SELF else tenant
    need_tenant(caller.identity, owner)
    return owner


def _month(house: DaemonServices, text: str) -> Month:
    if not text:
        return month_of(house.world.now())
    try:
        return parse_month(text)
    except ValueError:
        raise QuestionError(f"month: {shown(text)}: a month like 2026-05 is right") from None


def _micro(change: Mapping[str, Any], name: str) -> int | None:
    credits_ = number(change, name, MOST_CREDITS)
    return None if credits_ is None else micro(credits_)


def _told(row: Mapping[str, Any], members: Mapping[str, str]) -> dict[str, Any]:
    """What is promised of a row, and no more."""
    return {name: row[name] for name in members}


def _standing(house: DaemonServices, one: TenantAccount) -> dict[str, Any]:
    return _told(standing_row(one, house.questions.names()), _STANDING)


async def _budgets(house: DaemonServices, found: Iterable[BudgetRow]) -> list[dict[str, Any]]:
    names = await house.ledger.names()
    return [_told(budget_row(one, names.get(one.owner)), _BUDGET) for one in found]


def _statement(one: Statement) -> dict[str, Any]:
    return {
        "id": one.owner,
        "name": one.name,
        "month": str(one.month),
        "opening": one.opening / MICRO,
        "closing": one.closing / MICRO,
        "charged": one.charged / MICRO,
        "missing": one.missing / MICRO,
        "debt": one.debt / MICRO,
        "movements": {kind: amount / MICRO for kind, amount in one.movements.items()},
        "vms": [
            {
                "vm": line.vm,
                "name": line.name,
                "account": line.account,
                "hours": line.seconds / 3600,
                "cpu_core_hours": line.cpu_core_s / 3600,
                "memory_gib_hours": line.memory_gib_s / 3600,
                "cpu_cost": line.cpu_cost / MICRO,
                "memory_cost": line.memory_cost / MICRO,
                **further(line),
                "total_cost": line.cost / MICRO,
            }
            for line in one.lines
        ],
    }
