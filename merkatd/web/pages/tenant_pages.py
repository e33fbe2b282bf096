"""The pages of tenants: the list, and each tenant with its credits, platforms and VMs."""

from collections.abc import Sequence
from functools import partial

from merkatd.currency import MICRO
from merkatd.currency.statement import Statement
from merkatd.service.account_rows import ApplicationBudget, TenantStanding
from merkatd.web.base.responses import PageResponse
from merkatd.web.base.routes import PageRequest, route
from merkatd.web.layout.history_panels import over_time, tenant_charts
from merkatd.web.layout.html import Markup, Part, element
from merkatd.web.layout.page_frame import page_in_frame, panel
from merkatd.web.layout.row_lists import chosen_rows, list_page
from merkatd.web.layout.widgets import credits_text, facts, swatch, table
from merkatd.web.pages import visible_rows
from merkatd.web.pages.row_tables import (
    TENANT_FIELDS,
    goals_of,
    goals_table,
    tenant_rows,
    tenants_table,
    vm_fields,
    vms_table,
)


@route("GET", "/tenants")
async def tenants(request: PageRequest) -> PageResponse:
    """Return the list of tenants that the visitor may see."""
    rows = await tenant_rows(request)
    return await list_page(request, "Tenants", "tenant", rows, tenants_table, TENANT_FIELDS)


@route("GET", "/tenants/{}")
async def tenant(request: PageRequest) -> PageResponse:
    """Return the page of a tenant."""
    accounts, caller = request.house.accounts, request.caller
    standing = await request.read(
        ("tenant", request.id), lambda: accounts.tenant(caller, request.id)
    )
    statement = await request.read(("statement", request.id), lambda: _statement(request))
    budgets = await request.read(
        ("budgets", request.id), lambda: accounts.budgets(caller, request.id)
    )
    now = request.now
    vms = visible_rows.vms(request, now.snapshot.vms.owner == request.id)
    goals = [goal for goal in await goals_of(request) if goal.owner == request.id]
    name = standing.name or f"user {request.id}"
    now_s = request.house.world.now()
    return await page_in_frame(
        request,
        name,
        element("h1", swatch(request.id), name),
        element(
            "div",
            panel("Credits", facts(_facts(standing, float(now.cost[vms].sum())))),
            panel("This month", _movements(statement)),
            class_="grid",
        ),
        over_time(request, await tenant_charts(request)),
        panel("Deadlines", goals_table(goals, {request.id: name}, now_s)),
        panel("Budgets", _budgets(budgets)),
        panel(
            "VMs",
            *chosen_rows(
                request,
                vms,
                partial(vms_table, now, visible_rows.host_ids(request)),
                vm_fields(now),
                "VM",
            ),
        ),
    )


def _facts(standing: TenantStanding, cost: float) -> list[tuple[str, Part]]:
    rows: list[tuple[str, Part]] = [
        ("Balance", credits_text(standing.balance)),
        ("In platforms and applications", credits_text(standing.in_applications)),
        ("Pays", f"{credits_text(cost)} a period"),
        ("Weight", f"{standing.weight:g}"),
    ]
    rows.append(("Balance after a renewal", credits_text(standing.entitlement)))
    return rows


async def _statement(request: PageRequest) -> Statement:
    """Return the tenant's statement of this month, in a turn of the visitor's long reads."""
    read = partial(request.house.accounts.statement, request.caller, request.id)
    return (await request.house.long_reads.run(request.uid, read)).month


def _movements(statement: Statement) -> Markup:
    rows: list[tuple[str, Part]] = [("Opening", credits_text(statement.opening / MICRO))]
    rows += [
        (kind.capitalize(), credits_text(moved / MICRO))
        for kind, moved in statement.movements.items()
    ]
    rows.append(("Now", credits_text(statement.closing / MICRO)))
    return facts(rows)


def _budgets(budgets: Sequence[ApplicationBudget]) -> Markup:
    return table(
        "Budgets of platforms and applications",
        ("Application", "Budget", "Replenishment", "Balance", ""),
        [
            (
                row.name or str(row.application),
                credits_text(row.budget),
                credits_text(row.replenishment),
                credits_text(row.balance),
                "ended" if row.ended_s else "",
            )
            for row in budgets
        ],
        numbers=(1, 2, 3),
        nothing=[
            "No application has a budget of its own. A ",
            element("a", "platform", href="/platforms/new"),
            " gets one when it is submitted.",
        ],
    )
