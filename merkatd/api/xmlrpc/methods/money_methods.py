"""The methods about money: tenants, their applications' budgets, and statements."""

from collections.abc import Mapping
from typing import Any

from merkatd.api.xmlrpc.method_table import SELF, Parameter, method, struct, structs, whom
from merkatd.base.quantities import quoted_value
from merkatd.currency import MICRO, MOST_CREDITS, micro
from merkatd.currency.credits import Month, parse_month
from merkatd.service.account_rows import (
    ApplicationBudget,
    TenantStanding,
    TenantStatement,
    further_goods,
)
from merkatd.service.base.arguments import number
from merkatd.service.base.callers import Caller, require_tenant
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.services import DaemonServices

_TENANT = Parameter("tenant", "int", "The user's id; the default, -1, is the caller.", SELF)
_STANDING = {
    "id": "The user's id.",
    "name": "The user's name, if known.",
    "group": "The id of its primary group.",
    "group_name": "The name of its primary group.",
    "weight": "Its weight in the division of all credits.",
    "entitlement": "The credits up to which a renewal fills its accounts.",
    "balance": "The balance of its own account.",
    "in_applications": "The sum of its applications' balances.",
    "reserved": "The part of its own account that is reserved for charges.",
    "debt": "Its debt from earlier periods.",
}
_BUDGET = {
    "application": "The application's id.",
    "name": "The application's name.",
    "owner": "The id of its tenant.",
    "owner_name": "The name of its tenant, if known.",
    "budget": "The balance above which no replenishment raises its account.",
    "replenishment": "The credits that each replenishment adds.",
    "balance": "Its balance.",
    "reserved": "The part of the balance that is reserved for charges and can't be moved.",
    "debt": "Its tenant's debt from earlier periods, from all accounts.",
    "opened_s": "The time of its opening, in seconds since the epoch.",
    "ended_s": "The time of its end, if it has ended.",
}


@method(
    "merkat.tenant.info",
    _TENANT,
    returns=struct("The tenant; amounts in credits.", _STANDING),
    example="",
)
async def tenant_info(services: DaemonServices, caller: Caller, tenant: int) -> Any:
    """Return a tenant's balances and entitlement."""
    standing = await services.accounts.tenant(caller, whom(caller, tenant))
    return _documented(standing, _STANDING)


@method(
    "merkat.tenant.list",
    returns=structs("Every tenant that the caller may see.", _STANDING),
    example="",
)
async def tenant_list(services: DaemonServices, caller: Caller) -> Any:
    """Return all tenants for an administrator, or only the caller for other users."""
    return [_documented(tenant, _STANDING) for tenant in await services.accounts.tenants(caller)]


@method(
    "merkat.budget.info",
    _TENANT,
    returns=structs("A struct for each application; amounts in credits.", _BUDGET),
    example="",
)
async def budget_info(services: DaemonServices, caller: Caller, tenant: int) -> Any:
    """Return the budgets of a tenant's applications, including ended ones."""
    budgets = await services.accounts.budgets(caller, whom(caller, tenant))
    return [_documented(budget, _BUDGET) for budget in budgets]


@method(
    "merkat.budget.set",
    Parameter("application", "int", "The application's id."),
    Parameter(
        "change",
        "struct",
        "`budget` and `replenishment`, in credits; a missing member is left unchanged. A new budget"
        " becomes the balance: the difference moves from or to the tenant's account.",
    ),
    returns=struct("The application after the change; amounts in credits.", _BUDGET),
    example='application, {"budget": 500.0, "replenishment": 20.0}',
    order=1.0,
)
async def budget_set(
    services: DaemonServices, caller: Caller, application: int, change: Mapping[str, Any]
) -> Any:
    """Change the budget of an application."""
    for name in change:
        if name not in {"budget", "replenishment"}:
            raise InvalidRequestError(
                f"change: unknown member {quoted_value(name)}; known: budget, replenishment"
            )
    amount, replenishment = (_micro(change, name) for name in ("budget", "replenishment"))
    if amount is None and replenishment is None:
        raise InvalidRequestError("change: must contain budget, replenishment or both")
    after = await services.accounts.set_budget(caller, application, amount, replenishment)
    return _documented(after, _BUDGET)


@method(
    "merkat.statement.info",
    _TENANT,
    Parameter("month", "string", "The month, like `2026-05`; by default the present month.", ""),
    returns=struct(
        "The month's statement; amounts in credits.",
        {
            "id": "The tenant's id.",
            "name": "The tenant's name, if known.",
            "group": "The id of its primary group, if known.",
            "group_name": "The name of its primary group, if known.",
            "month": "The month, from midnight to midnight UTC.",
            "opening": "The balance of the tenant and its applications at the start of the month.",
            "closing": "The balance at the end of the month, or now.",
            "charged": "The cost of all its VMs.",
            "missing": "The cost that could not be paid then, and became the tenant's debt.",
            "debt": "The tenant's present debt.",
            "difference": "The amount that the statement can't explain; always 0.",
            "movements": "A struct with the income by kind; expenses are negative.",
            "vms": "A struct for each VM and payer:",
        },
        {
            "vm": "The VM's id.",
            "name": "The VM's name.",
            "account": "The account that paid.",
            "hours": "The hours for which it ran and was charged.",
            "cpu_core_hours": "Allocated cores x hours.",
            "memory_gib_hours": "Allocated GiB of memory x hours.",
            "cpu_cost": "The cost of its CPU.",
            "memory_cost": "The cost of its memory.",
            "network_mbit_hours": "Allocated Mbit/s x hours; left out if network was not sold.",
            "network_cost": "The cost of its network; left out if network was not sold.",
            "disk_mib_hours": "Allocated MiB/s x hours; left out if disk was not sold.",
            "disk_cost": "The cost of its disk; left out if disk was not sold.",
            "total_cost": "The cost of all its resources.",
        },
    ),
    example="",
)
async def statement_info(services: DaemonServices, caller: Caller, tenant: int, month: str) -> Any:
    """Return a tenant's statement for a month: balances, income and charges."""
    owner = whom(caller, tenant)
    require_tenant(caller, owner)
    wanted = _month(month)

    async def read() -> Any:
        statement = await services.accounts.statement(caller, owner, wanted)
        return await services.world.executor.run(lambda: _statement(statement))

    return await services.long_reads.run(caller.identity.uid, read)


def _month(text: str) -> Month | None:
    if not text:
        return None
    try:
        return parse_month(text)
    except ValueError:
        raise InvalidRequestError(
            f"month: must be like 2026-05 (got {quoted_value(text)})"
        ) from None


def _micro(change: Mapping[str, Any], name: str) -> int | None:
    credits_ = number(change, name, MOST_CREDITS)
    return None if credits_ is None else micro(credits_)


def _documented(
    value: TenantStanding | ApplicationBudget, names: Mapping[str, str]
) -> dict[str, Any]:
    """Return the documented members of a result."""
    return {name: getattr(value, name) for name in names}


def _statement(whole: TenantStatement) -> dict[str, Any]:
    statement = whole.month
    return {
        "id": statement.owner,
        "name": statement.name,
        "group": statement.group,
        "group_name": whole.group_name,
        "month": str(statement.month),
        "opening": statement.opening / MICRO,
        "closing": statement.closing / MICRO,
        "charged": statement.charged / MICRO,
        "missing": statement.missing / MICRO,
        "debt": statement.debt / MICRO,
        "difference": statement.difference / MICRO,
        "movements": {kind: amount / MICRO for kind, amount in statement.movements.items()},
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
                **further_goods(line),
                "total_cost": line.cost / MICRO,
            }
            for line in statement.lines
        ],
    }
