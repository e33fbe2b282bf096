"""The overview: who gets what, who pays what, and who will make the deadline."""

from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.web.answers import Answer
from merkatd.web.goals import Goal, of_platform
from merkatd.web.markup import Markup, Part, h
from merkatd.web.pages import seen
from merkatd.web.pages.frame import framed, panel
from merkatd.web.pages.parts import (
    NONE,
    amount,
    bar,
    credits_,
    deadline,
    link,
    percent,
    span,
    steps_table,
    swatch,
    table,
)
from merkatd.web.routes import Here, route

_STEPS = 12
_MOST_TENANTS = 20
_MOST_GOALS = 20
_LOOKED_THROUGH = 400
_MOVING = frozenset({"create", "deploy", "migrate", "suspend", "resume", "stop", "terminate"})
"""What an overview tells of; the limits that follow every price are on the page of all."""
_OVER = frozenset({"done", "cancelled", "failed"})


@route("GET", "/")
async def overview(here: Here) -> Answer:
    """The state of the market at a glance."""
    now_s = here.house.world.now()
    tenants = await tenant_rows(here)
    names = (await seen.present(here)).owner_names
    goals = await goals_of(here)
    steps = (await seen.steps(here, _LOOKED_THROUGH, kinds=_MOVING))[:_STEPS]
    return await framed(
        here,
        "Overview",
        h("h1", "Overview", class_="unseen"),
        h(
            "div",
            panel(
                "Hosts" if here.admin else "Hosts with your VMs",
                hosts_chart(),
                more=h("a", "As a table", href="/hosts"),
            ),
            panel(
                "Prices",
                h("div", class_="prices", data_prices="/data/prices", data_keep=True),
                more=h("a", "As a table", href="/prices"),
            ),
            panel("Deadlines", goals_table(goals[:_MOST_GOALS], names, now_s), more=_new()),
            panel(
                "Tenants" if here.admin else "Your account",
                tenants_table(tenants),
                more=h("small", "credits a period"),
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


def _new() -> Markup:
    return h("a", "New platform", href="/platforms/new")


async def goals_of(here: Here) -> list[Goal]:
    """All that has a deadline and is not over, the nearest first; the visitor's own, or all."""
    goals = [goal for goal in here.goals.told() if here.admin or goal.owner == here.uid]
    platforms = here.house.questions.platforms
    if platforms is not None:
        rows = await platforms.listed(None if here.admin else here.uid)
        goals += [of_platform(row) for row in rows if row["state"] not in _OVER]
    return sorted(goals, key=lambda goal: (goal.deadline_s is None, goal.deadline_s, goal.name))


async def tenant_rows(here: Here) -> list[dict[str, Any]]:
    """What tenants bid, get, pay and have left, who pays most first; the visitor's own, or all."""
    standing: Sequence[Mapping[str, Any]] = await here.call("merkat.tenant.list")
    rows = {
        one["id"]: {
            "owner": one["id"],
            "name": one.get("name") or f"user {one['id']}",
            "balance": one["balance"] + one["in_applications"],
            "vms": 0,
            "bid": 0.0,
            "cpu": 0.0,
            "memory": 0.0,
            "cost": 0.0,
        }
        for one in standing
    }
    all_cpu = 0.0
    for one in await here.ask("applications"):
        all_cpu += one["cpu"]
        row = rows.get(one["owner"])
        if row is None:
            continue
        row["vms"] += one["running"] + one["pending"]
        row["cost"] += one["cost"]
        row["cpu"] += one["cpu"]
        row["memory"] += one["memory"]
        row["bid"] += sum(value for name, value in one.items() if name.startswith("bid_"))
    for row in rows.values():
        row["part"] = row["cpu"] / all_cpu if all_cpu > 0 else 0.0
        row["lasts"] = row["balance"] / row["cost"] if row["cost"] > 0 else None
    return sorted(rows.values(), key=lambda row: (-row["cost"], row["name"]))


def tenants_table(rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Who pays what, and what for."""
    found = table(
        "Tenants: what they bid, get, pay and have left",
        ("Tenant", "VMs", "Bids", "Gets", "", "Pays", "Left", "Lasts"),
        [
            (
                [swatch(row["owner"]), link("tenants", row["owner"], row["name"])],
                row["vms"],
                credits_(row["bid"]) if row["vms"] else NONE,
                amount("cpu", row["cpu"]) if row["vms"] else NONE,
                bar(row["part"], class_=f"t{row['owner'] % 8}"),
                credits_(row["cost"]) if row["vms"] else NONE,
                credits_(row["balance"]),
                _periods(row["lasts"]),
            )
            for row in rows[:_MOST_TENANTS]
        ],
        numbers=(1, 2, 3, 5, 6, 7),
        nothing="Nobody has come yet.",
    )
    if len(rows) <= _MOST_TENANTS:
        return found
    return h("div", found, h("p", h("a", f"All {len(rows)} tenants", href="/tenants")))


def _periods(lasts: float | None) -> Part:
    if lasts is None:
        return NONE
    return f"{lasts:,.0f}" if lasts < 1e6 else "for ever"


def goals_table(goals: Sequence[Goal], names: Mapping[int, str], now_s: float) -> Markup:
    """Who will make it."""
    return table(
        "Work with deadlines: how much is done, and whether it will be in time",
        ("Work", "Tenant", "Done, and time passed", "Deadline", "Will end", "In time?"),
        [
            (
                link("platforms", goal.platform, goal.name),
                [
                    swatch(goal.owner),
                    link("tenants", goal.owner, names.get(goal.owner) or f"user {goal.owner}"),
                ],
                progress(goal, now_s),
                deadline(goal.deadline_s, now_s),
                _ending(goal),
                verdict(goal),
            )
            for goal in goals
        ],
        nothing="Nothing has a deadline.",
    )


def progress(goal: Goal, now_s: float) -> Part:
    """A bar of what is done, with a tick where time is, and the same in words."""
    if goal.done is None:
        return h("span", goal.state, class_="quiet")
    passed = goal.passed(now_s)
    words = f"{percent(goal.done)} done"
    if passed is not None:
        words += f", {percent(min(passed, 1.0))} of its time"
    return [bar(goal.done, passed, f"t{goal.owner % 8}"), h("small", words)]


def _ending(goal: Goal) -> Part:
    if goal.projected_end_s is None or goal.deadline_s is None:
        return NONE
    slack_s = goal.deadline_s - goal.projected_end_s
    if abs(slack_s) < 1.0:
        return "right then"
    return f"{span(slack_s)} {'before' if slack_s > 0 else 'after'}"


def verdict(goal: Goal) -> Part:
    """Whether it is on track, in a word that is also a colour."""
    if goal.on_track is None:
        return h("span", goal.state, class_="badge")
    if goal.on_track:
        return h("span", "✓ on track", class_="badge good")
    return h("span", "▲ late", class_="badge bad")
