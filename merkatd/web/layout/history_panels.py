"""The panels of pages with charts of the last periods."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from merkatd.base.quantities import duration_text
from merkatd.service.market.prices import PastPriceRow
from merkatd.service.platforms import PlatformDetails
from merkatd.web.base.charts import Charts, of_host, of_platform, of_tenant, of_vm, prices_of
from merkatd.web.base.long_memory import RANGES
from merkatd.web.base.routes import PageRequest
from merkatd.web.layout.html import Markup, Part, compact, element
from merkatd.web.layout.page_frame import busy_markets, panel
from merkatd.web.layout.widgets import link, moment, plain_number, table

_ROWS = 60


def charts_box(charts: Charts) -> Markup:
    """Return the element in which the page's script draws these charts."""
    return element("div", class_="charts", data_charts=compact(charts.data), data_keep=True)


def price_charts(
    request: PageRequest, rows: Sequence[PastPriceRow], resources: Sequence[str]
) -> list[Part]:
    """Return the charts of prices; those of markets without VMs of the visitor stay folded."""
    busy, interval_s = busy_markets(request), request.house.world.rhythm.interval_s
    idle = sorted({row.market for row in rows} - busy)
    shown: list[Part] = [charts_box(prices_of(rows, resources, busy, interval_s))]
    if idle:
        words = f"Without VMs: {', '.join(idle)}"
        box = charts_box(prices_of(rows, resources, frozenset(idle), interval_s))
        shown.append(element("details", element("summary", words), box))
    return shown


def range_links(request: PageRequest) -> Markup:
    """Return links to the ranges of time that charts can show."""
    chosen = request.range if request.range in RANGES else ""
    path = request.asked.path
    if request.asked.method == "POST":
        path = path.rpartition("/")[0]  # the answer to a form of a page
    links: list[Part] = []
    for name, words in (("", "Newest periods"), *((name, name.capitalize()) for name in RANGES)):
        query = f"?range={name}" if name else ""
        links += [
            " ",
            element(
                "a", words, href=f"{path}{query}",
                aria_current="true" if name == chosen else None,
            ),
        ]  # fmt: skip
    return element("nav", links, class_="ranges", aria_label="Range of the charts")


def over_time(request: PageRequest, charts: Charts, *gaps: str) -> Markup:
    """Return a panel with charts and the same data as a table; `gaps` are notes on missing data."""
    if not charts.period:
        nothing = element("p", "There is no data yet; each period adds some.", class_="quiet")
        return panel("Over time", charts_box(charts), nothing, more=range_links(request))
    known = charts.known
    heads = [f"{chart.title} {line.name}" for chart in known for line in chart.lines]
    lines = [line for chart in known for line in chart.lines]
    newest = range(len(charts.period) - 1, max(len(charts.period) - 1 - _ROWS, -1), -1)
    numbers_table = table(
        "Values by period, the newest first",
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
        charts_box(charts),
        [element("p", gap, class_="quiet") for gap in gaps],
        element("details", element("summary", "As a table"), numbers_table),
        more=[element("small", _reach(charts), class_="quiet"), range_links(request)],
    )


def _reach(charts: Charts) -> str:
    if len(charts.period) == 1:
        return "1 period"
    return f"{len(charts.period)} periods in {duration_text(charts.at_s[-1] - charts.at_s[0])}"


def vm_charts(request: PageRequest, owner: int) -> Charts:
    """Return the charts of a VM that the visitor may see."""
    return of_vm(request.chart_moments, request.id, owner, request.house.world.goods.resources)


def vm_gaps(request: PageRequest) -> list[str]:
    """Return notes on missing data in the charts of a VM."""
    return _since(request, "The used amount")


def host_gaps(request: PageRequest) -> list[str]:
    """Return notes on missing data in the charts of a host."""
    return _since(request, "The set of VMs on a host")


def platform_gaps(request: PageRequest) -> list[str]:
    """Return notes on missing data in the charts of a platform."""
    return _since(request, "The progress of its work")


def _since(request: PageRequest, what: str) -> list[str]:
    """Return a note if periods before the start of this daemon lack this data."""
    began = request.past.began
    if began is None or began <= 1:
        return []
    return [f"{what} is known from period {began} on, when this daemon started."]


def host_charts(request: PageRequest) -> Charts:
    """Return the charts of a host; a tenant sees only the part of its own VMs."""
    owner = None if request.admin else request.uid
    return of_host(request.chart_moments, request.id, owner, request.house.world.goods.resources)


async def tenant_charts(request: PageRequest) -> Charts:
    """Return the charts of a tenant that the visitor may see."""
    moments = request.chart_moments
    since_s = moments[0].at_s if moments else request.house.world.now()

    async def in_turn(read: Callable[[], Awaitable[Any]]) -> Any:
        # The wait for a turn is inside the read, so that its time limit includes the wait.
        return await request.read(
            ("held", request.id), lambda: request.house.long_reads.run(request.uid, read)
        )

    changes = await request.house.balances.changes(request.caller, request.id, since_s, in_turn)
    return of_tenant(moments, request.id, changes, request.house.world.goods.resources)


def platform_charts(request: PageRequest, row: PlatformDetails) -> Charts:
    """Return the charts of a platform that the visitor may see."""
    resources = request.house.world.goods.resources
    return of_platform(request.chart_moments, request.id, row.application, resources)
