"""Histories on pages: charts where scripts run, and the same as a table."""

from collections.abc import Mapping
from typing import Any

from merkatd.web.charts import Charts, prices_of
from merkatd.web.histories import of_host, of_platform, of_tenant, of_vm
from merkatd.web.holding import held
from merkatd.web.markup import Markup, h
from merkatd.web.pages.frame import panel
from merkatd.web.pages.parts import link, moment, plain_number, table
from merkatd.web.routes import Here

PRICED = 120
"""Periods that a chart of prices shows."""
_ROWS = 60


def charts_box(url: str) -> Markup:
    """Where the script draws charts of this data."""
    return h("div", class_="charts", data_charts=url, data_keep=True)


def over_time(url: str, charts: Charts) -> Markup:
    """A panel with charts, and the same as a table."""
    if not charts.period:
        nothing = h("p", "Nothing is kept yet; each period adds to it.", class_="quiet")
        return panel("Over time", charts_box(url), nothing)
    known = charts.known
    heads = [f"{one.title} {line.name}" for one in known for line in one.lines]
    lines = [line for one in known for line in one.lines]
    newest = range(len(charts.period) - 1, max(len(charts.period) - 1 - _ROWS, -1), -1)
    found = table(
        "What it was by period, the newest first",
        ("Period", "Time", *heads),
        [
            (
                link("periods", charts.period[at], None),
                moment(charts.at_s[at]),
                *(plain_number(line.values[at]) for line in lines),
            )
            for at in newest
        ],
        numbers=(0, *range(2, 2 + len(heads))),
    )
    return panel(
        "Over time",
        charts_box(url),
        h("details", h("summary", "As a table"), found),
        more=h("small", _reach(len(charts.period)), class_="quiet"),
    )


def _reach(periods: int) -> str:
    return "the last period" if periods == 1 else f"the last {periods} periods"


async def prices_charts(here: Here) -> Charts:
    """What things cost in the newest periods."""
    rows = await here.call("merkat.price.history", PRICED)
    return prices_of(rows, here.house.world.goods.resources)


def vm_charts(here: Here, found: Mapping[str, Any]) -> Charts:
    """Of a VM that the visitor may see."""
    return of_vm(here.past.moments, here.id, found["owner"], here.house.world.goods.resources)


def host_charts(here: Here) -> Charts:
    """Of a host: for tenants, what is theirs of it."""
    owner = None if here.admin else here.uid
    return of_host(here.past.moments, here.id, owner, here.house.world.goods.resources)


async def tenant_charts(here: Here) -> Charts:
    """Of a tenant that the visitor may see."""
    moments = here.past.moments
    since_s = moments[0].at_s if moments else here.house.world.now()
    balance, moved = await here.house.world.database.read(
        lambda connection: held(connection, here.id, since_s)
    )
    return of_tenant(moments, here.id, balance, moved, here.house.world.goods.resources)


def platform_charts(here: Here, row: Mapping[str, Any]) -> Charts:
    """Of a platform that the visitor may see."""
    resources = here.house.world.goods.resources
    return of_platform(here.past.moments, here.id, row["application"], resources)
