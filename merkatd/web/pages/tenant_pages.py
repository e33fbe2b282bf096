"""The pages of tenants: the list, and each tenant with its credits, platforms and VMs."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from merkatd.web.base.responses import PageResponse
from merkatd.web.base.routes import PageRequest, route
from merkatd.web.layout.html import Markup, Part, element
from merkatd.web.layout.page_frame import list_page, page_in_frame, page_of_rows, panel
from merkatd.web.layout.widgets import count_text, credits_text, facts, swatch, table
from merkatd.web.pages import visible_rows
from merkatd.web.pages.history_panels import over_time, tenant_charts
from merkatd.web.pages.row_tables import (
    goals_of,
    goals_table,
    tenant_rows,
    tenants_table,
    vms_table,
)


@route("GET", "/tenants")
async def tenants(here: PageRequest) -> PageResponse:
    """Return the list of tenants that the visitor may see."""
    rows = await tenant_rows(here)
    return await list_page(here, "Tenants", count_text(len(rows), "tenant"), rows, tenants_table)


@route("GET", "/tenants/{}")
async def tenant(here: PageRequest) -> PageResponse:
    """Return the page of a tenant."""
    one = await here.call("merkat.tenant.info", here.id)
    statement = await here.call("merkat.statement.info", here.id, "")
    budgets = await here.call("merkat.budget.info", here.id)
    now = here.now
    vms = visible_rows.vms(here, now.snapshot.vms.owner == here.id)
    goals = [goal for goal in await goals_of(here) if goal.owner == here.id]
    name = one.get("name") or f"user {here.id}"
    now_s = here.house.world.now()
    return await page_in_frame(
        here,
        name,
        element("h1", swatch(here.id), name),
        element(
            "div",
            panel("Credits", facts(_facts(one, float(now.cost[vms].sum())))),
            panel("This month", _movements(statement)),
            class_="grid",
        ),
        over_time(await tenant_charts(here)),
        panel("Deadlines", goals_table(goals, {here.id: name}, now_s)),
        panel("Budgets", _budgets(budgets)),
        panel(
            "VMs", *page_of_rows(here, vms, partial(vms_table, now, visible_rows.host_ids(here)))
        ),
    )


def _facts(one: Mapping[str, Any], cost: float) -> list[tuple[str, Part]]:
    rows: list[tuple[str, Part]] = [
        ("Balance", credits_text(one["balance"])),
        ("In platforms and applications", credits_text(one["in_applications"])),
        ("Pays", f"{credits_text(cost)} a period"),
        ("Weight", f"{one['weight']:g}"),
    ]
    if one.get("entitlement") is not None:
        rows.append(("Balance after a renewal", credits_text(one["entitlement"])))
    return rows


def _movements(statement: Mapping[str, Any]) -> Markup:
    rows: list[tuple[str, Part]] = [("Opening", credits_text(statement["opening"]))]
    rows += [(kind, credits_text(value)) for kind, value in statement["movements"].items()]
    rows.append(("Now", credits_text(statement["closing"])))
    return facts(rows)


def _budgets(budgets: Sequence[Mapping[str, Any]]) -> Markup:
    return table(
        "Budgets of platforms and applications",
        ("Application", "Budget", "Replenishment", "Balance", ""),
        [
            (
                row["name"] or str(row["application"]),
                credits_text(row["budget"]),
                credits_text(row["replenishment"]),
                credits_text(row["balance"]),
                "ended" if row.get("ended_s") else "",
            )
            for row in budgets
        ],
        numbers=(1, 2, 3),
        nothing="No application has a budget of its own.",
    )
