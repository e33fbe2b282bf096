"""The overview: who gets what, who pays what, and who will make the deadline."""

from collections.abc import Iterable

from merkatd.web.answers import Answer
from merkatd.web.markup import Markup, h
from merkatd.web.pages import seen
from merkatd.web.pages.frame import framed, panel
from merkatd.web.pages.goal_rows import goals_of, goals_table
from merkatd.web.pages.over_time import charts_box
from merkatd.web.pages.parts import steps_table, swatch
from merkatd.web.pages.story import STORY_PERIODS, story
from merkatd.web.pages.tenant_rows import tenant_rows, tenants_table
from merkatd.web.routes import Here, route

_STEPS = 12
_MOST_IN_LEGEND = 12
_MOST_GOALS = 20
_LOOKED_THROUGH = 400
_MOVING = frozenset({"create", "deploy", "migrate", "suspend", "resume", "stop", "terminate"})
"""What an overview tells of; the limits that follow every price are on the page of all."""


@route("GET", "/")
async def overview(here: Here) -> Answer:
    """The state of the market at a glance."""
    now_s = here.house.world.now()
    tenants = await tenant_rows(here)
    names = (await seen.present(here)).owner_names
    goals = await goals_of(here)
    prices = await here.call("merkat.price.history", STORY_PERIODS)
    steps = (await seen.steps(here, _LOOKED_THROUGH, kinds=_MOVING))[:_STEPS]
    return await framed(
        here,
        "Overview",
        h("h1", "Overview", class_="unseen"),
        h("p", story(tenants, goals, prices, names, of_all=here.admin), class_="lead"),
        h(
            "div",
            panel(
                "Hosts" if here.admin else "Hosts with your VMs",
                hosts_chart(),
                legend((row["owner"], row["name"]) for row in tenants if row["vms"]),
                more=h("a", "As a table", href="/hosts"),
            ),
            panel(
                "Prices",
                charts_box("/data/prices"),
                more=h("a", "As a table", href="/prices"),
            ),
            panel("Deadlines", goals_table(goals[:_MOST_GOALS], names, now_s), more=_new()),
            panel(
                "Tenants" if here.admin else "Your account",
                tenants_table(tenants),
                more=h("small", "bids and pays in credits a period"),
            ),
            class_="grid",
        ),
        panel(
            "Decisions",
            steps_table(steps, await seen.host_ids(here)),
            more=h("a", "All", href="/decisions"),
        ),
    )


def hosts_chart() -> Markup:
    """Where the script draws hosts as bars of VMs."""
    without = h(
        "noscript", h("p", "The bars need scripts; ", h("a", "the table", href="/hosts"), ".")
    )
    return h("div", without, class_="hosts", data_hosts="/data/hosts", data_keep=True)


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


def _new() -> Markup:
    return h("a", "New platform", href="/platforms/new")
