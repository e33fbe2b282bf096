"""The overview page, with a summary in sentences."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from merkatd.base.hourly_prices import price_text
from merkatd.base.quantities import duration_text
from merkatd.service.market.prices import PastPriceRow
from merkatd.service.market.step_history import PLACING_KINDS
from merkatd.web.base.charts import PER_UNIT
from merkatd.web.base.goals import Goal
from merkatd.web.base.responses import PageResponse
from merkatd.web.base.routes import PageRequest, route
from merkatd.web.layout.history_panels import price_charts
from merkatd.web.layout.html import Markup, Part, compact, element
from merkatd.web.layout.page_frame import page_in_frame, panel
from merkatd.web.layout.widgets import (
    amount,
    count_text,
    credits_text,
    steps_table,
    swatch,
)
from merkatd.web.pages import visible_rows
from merkatd.web.pages.row_tables import goals_of, goals_table, tenant_rows, tenants_table
from merkatd.web.pages.visible_rows import host_bars, steps

STORY_PERIODS = 10
_MUCH = 1.2
"""The ratio of prices from which a change is mentioned."""
_NAMED = 3
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
Row = Mapping[str, Any]


def story(
    tenants: Sequence[Row],
    goals: Sequence[Goal],
    prices: Sequence[PastPriceRow],
    names: Mapping[int, str],
    *,
    of_all: bool,
    interval_s: float,
) -> str:
    """Return the summary of the market, for all tenants or for one tenant. Pure."""
    markets = {row.market for row in prices}
    cost = _price(prices, interval_s) if len(markets) == 1 else ""
    shares = _largest_share(tenants) if of_all else _own_share(tenants)
    return " ".join(part for part in (cost, shares, _in_time(goals, names)) if part)


def _price(prices: Sequence[PastPriceRow], interval_s: float) -> str:
    known = [price for row in prices if (price := row.prices.get("cpu")) is not None]
    if not known:
        return ""
    now, before = known[-1], known[0]
    text = f"CPU costs {price_text(now, 'cpu', interval_s)}"
    periods = f"{_count(len(known) - 1)} period{'s' if len(known) > 2 else ''} ago"
    if before > 0 and now > before * _MUCH:
        return f"{text}, {now / before:.1f} times as much as {periods}."
    if now > 0 and before > now * _MUCH:
        return f"{text}, {1 - now / before:.0%} less than {periods}."
    return f"{text}."


def _largest_share(tenants: Sequence[Row]) -> str:
    """Return a sentence about the tenant with the largest share, and its costs."""
    there = [row for row in tenants if row["cpu"] > 0]
    if not there:
        return "No tenant has a running VM."
    first = max(there, key=lambda row: (row["cpu"], row["name"]))
    cores = sum(row["cpu"] for row in there)
    if len(there) == 1:
        return f"{first['name']} is the only tenant and gets all that it can use: {_cores(cores)}."
    return (
        f"{_count(len(there)).capitalize()} tenants share {_cores(cores)};"
        f" {first['name']} gets most, {_cores(first['cpu'])}, and pays"
        f" {credits_text(first['cost'])} credits a period."
    )


def _own_share(tenants: Sequence[Row]) -> str:
    own = next(iter(tenants), None)
    if own is None or not own["vms"]:
        return "You have no VMs yet: create one in OpenNebula, or submit a platform."
    text = (
        f"You get {_cores(own['cpu'])} and {amount('memory', own['memory'])} for"
        f" {credits_text(own['cost'])} credits a period"
    )
    lasts_s = own["lasts_s"]
    return (
        f"{text}, which your credits last for {duration_text(lasts_s)}." if lasts_s else f"{text}."
    )


def _cores(share: float) -> str:
    cores = round(share / PER_UNIT["cpu"], 1)
    return f"{cores:g} core{'' if cores == 1 else 's'}"


def _in_time(goals: Sequence[Goal], names: Mapping[int, str]) -> str:
    known = [goal for goal in goals if goal.ended_s is None and goal.on_track is not None]
    late = [goal for goal in known if not goal.on_track]
    if not known:
        return ""
    if not late:
        return "Every deadline will be met." if len(known) > 1 else "The deadline will be met."
    who = ", ".join(_named(goal, names) for goal in late[:_NAMED])
    more = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
    kept = f"{_count(len(known) - len(late))} of {_count(len(known))}".capitalize()
    return f"{kept} deadlines will be met; late: {who}{more}."


def _named(goal: Goal, names: Mapping[int, str]) -> str:
    """Return the name of a platform, or the owner's name of other work."""
    return goal.name if goal.platform is not None else names.get(goal.owner, goal.name)


def _count(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


_STEPS = 12
_MOST_IN_LEGEND = 12
_MOST_ROWS = 20
"""The most tenants and the most deadlines on the overview; other pages list all."""
_MOST_DRAWN = 2_500
"""The most hosts and VMs in the bars of the overview: it transfers them after each period."""


@route("GET", "/")
async def overview(request: PageRequest) -> PageResponse:
    """Return the overview page."""
    now_s = request.house.world.now()
    tenants = await tenant_rows(request)
    names = request.now.owner_names
    goals = await goals_of(request)
    prices = await visible_rows.prices(request)
    moves = await steps(request, _STEPS, kinds=PLACING_KINDS)
    return await page_in_frame(
        request,
        "Overview",
        element("h1", "Overview", class_="unseen"),
        element(
            "p",
            story(
                tenants,
                goals,
                _recent_prices(prices),
                names,
                of_all=request.admin,
                interval_s=request.house.world.rhythm.interval_s,
            ),
            class_="lead",
        ),
        element(
            "div",
            panel(
                "Hosts" if request.admin else "Hosts with your VMs",
                await _hosts(request),
                legend((row["owner"], row["name"]) for row in tenants if row["vms"]),
                more=element("a", "As a table", href="/hosts"),
            ),
            panel(
                "Prices",
                *price_charts(request, prices, request.house.world.goods.resources),
                more=element("a", "As a table", href="/prices"),
            ),
            panel(
                "Deadlines",
                goals_table(goals[:_MOST_ROWS], names, now_s),
                _link_to_all(goals, "deadline", "/platforms"),
                more=element("a", "New platform", href="/platforms/new"),
            ),
            panel(
                "Tenants" if request.admin else "Your account",
                tenants_table(tenants[:_MOST_ROWS]),
                _link_to_all(tenants, "tenant", "/tenants"),
                more=element("small", "bids and pays in credits a period"),
            ),
            class_="grid",
        ),
        panel(
            "Decisions",
            steps_table(moves, visible_rows.host_ids(request)),
            more=element("a", "All", href="/decisions"),
        ),
    )


async def _hosts(request: PageRequest) -> Part:
    """Return the element in which the script draws hosts as bars of the visible VMs."""
    now = request.now
    drained = frozenset(request.house.daemon.state().drained_hosts)
    owner = None if request.admin else request.uid
    work = partial(host_bars, now, drained, owner, _MOST_DRAWN)
    bars = await request.house.world.executor.run(work)
    without = element(
        "noscript",
        element(
            "p",
            "The bars need scripts. ",
            element("a", "See the table instead", href="/hosts"),
            ".",
        ),
    )
    box = element("div", without, class_="hosts", data_hosts=compact(bars), data_keep=True)
    every = (
        len(request.now.snapshot.hosts) if request.admin else len(visible_rows.host_ids(request))
    )
    if len(bars) >= every:
        return box
    first = f"The first {len(bars):,} of {count_text(every, 'host')}; the table has all."
    return [box, element("p", first, class_="quiet")]


def _link_to_all(rows: Sequence[Any], what: str, path: str) -> Part:
    if len(rows) <= _MOST_ROWS:
        return None
    return element("p", element("a", f"All {count_text(len(rows), what)}", href=path))


def _recent_prices(prices: Sequence[PastPriceRow]) -> Sequence[PastPriceRow]:
    """Return the rows of the last periods, for all markets."""
    since = prices[-1].period - STORY_PERIODS if prices else 0
    return [row for row in prices if row.period > since]


def legend(tenants: Iterable[tuple[int, str]]) -> Markup:
    """Return the legend of the bars and their colours."""
    known = list(tenants)
    return element(
        "p",
        [element("span", swatch(owner), name) for owner, name in known[:_MOST_IN_LEGEND]],
        element("span", element("span", class_="swatch thick", aria_hidden="true"), "CPU"),
        element("span", element("span", class_="swatch thin", aria_hidden="true"), "memory"),
        class_="legend",
    )
