"""The overview: who gets what, who pays what, and who will make the deadline."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from merkatd.database.scheduler.step_store import PLACEMENT
from merkatd.web.answers import Answer
from merkatd.web.charts import prices_of
from merkatd.web.drawing import hosts_of
from merkatd.web.markup import Markup, Part, compact, h
from merkatd.web.pages import seen
from merkatd.web.pages.frame import framed, panel
from merkatd.web.pages.goal_rows import goals_of, goals_table
from merkatd.web.pages.over_time import charts_box
from merkatd.web.pages.parts import counted, steps_table, swatch
from merkatd.web.pages.steps import steps
from merkatd.web.pages.story import STORY_PERIODS, story
from merkatd.web.pages.tenant_rows import tenant_rows, tenants_table
from merkatd.web.routes import Here, route

_STEPS = 12
_MOST_IN_LEGEND = 12
_MOST_ROWS = 20
"""Of tenants and of deadlines: all of them are on pages of their own."""
_MOST_DRAWN = 1_000
"""Hosts, of which the page brings all VMs along after each period."""


@route("GET", "/")
async def overview(here: Here) -> Answer:
    """The state of the market at a glance."""
    now_s = here.house.world.now()
    tenants = await tenant_rows(here)
    names = here.now.owner_names
    goals = await goals_of(here)
    prices = await seen.prices(here)
    moves = await steps(here, _STEPS, kinds=PLACEMENT)
    return await framed(
        here,
        "Overview",
        h("h1", "Overview", class_="unseen"),
        h("p", story(tenants, goals, _lately(prices), names, of_all=here.admin), class_="lead"),
        h(
            "div",
            panel(
                "Hosts" if here.admin else "Hosts with your VMs",
                await _hosts(here),
                legend((row["owner"], row["name"]) for row in tenants if row["vms"]),
                more=h("a", "As a table", href="/hosts"),
            ),
            panel(
                "Prices",
                charts_box(prices_of(prices, here.house.world.goods.resources)),
                more=h("a", "As a table", href="/prices"),
            ),
            panel(
                "Deadlines",
                goals_table(goals[:_MOST_ROWS], names, now_s),
                _all(goals, "deadline", "/platforms"),
                more=h("a", "New platform", href="/platforms/new"),
            ),
            panel(
                "Tenants" if here.admin else "Your account",
                tenants_table(tenants[:_MOST_ROWS]),
                _all(tenants, "tenant", "/tenants"),
                more=h("small", "bids and pays in credits a period"),
            ),
            class_="grid",
        ),
        panel(
            "Decisions",
            steps_table(moves, seen.host_ids(here)),
            more=h("a", "All", href="/decisions"),
        ),
    )


async def _hosts(here: Here) -> Part:
    """Where the script draws hosts as bars of VMs: for tenants, what is theirs of it."""
    now = here.now
    drained = frozenset((await here.status())["drained_hosts"])
    owner = None if here.admin else here.uid
    work = partial(hosts_of, now, drained, owner, _MOST_DRAWN)
    found = await here.house.world.executor.run(work)
    without = h(
        "noscript", h("p", "The bars need scripts; ", h("a", "the table", href="/hosts"), ".")
    )
    box = h("div", without, class_="hosts", data_hosts=compact(found), data_keep=True)
    if len(found) < _MOST_DRAWN:
        return box
    return [box, h("p", f"The first {counted(_MOST_DRAWN, 'host')}.", class_="quiet")]


def _all(rows: Sequence[Any], what: str, path: str) -> Part:
    if len(rows) <= _MOST_ROWS:
        return None
    return h("p", h("a", f"All {counted(len(rows), what)}", href=path))


def _lately(prices: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The rows of the last periods, those of all markets."""
    since = prices[-1]["period"] - STORY_PERIODS if prices else 0
    return [row for row in prices if row["period"] > since]


def legend(tenants: Iterable[tuple[int, str]]) -> Markup:
    """What the bars and their colours are."""
    known = list(tenants)
    return h(
        "p",
        [h("span", swatch(owner), name) for owner, name in known[:_MOST_IN_LEGEND]],
        h("span", h("span", class_="swatch thick", aria_hidden="true"), "CPU"),
        h("span", h("span", class_="swatch thin", aria_hidden="true"), "memory"),
        class_="legend",
    )
