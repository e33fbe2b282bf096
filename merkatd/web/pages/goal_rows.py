"""Work with deadlines as a table: how far it is, and whether it will be, or was, in time."""

from collections.abc import Mapping, Sequence

from merkatd.web.goals import Goal, of_platform
from merkatd.web.markup import Markup, Part, h
from merkatd.web.pages.parts import (
    COLOURS,
    NONE,
    bar,
    deadline,
    link,
    percent,
    span,
    table,
    tenant,
)
from merkatd.web.routes import Here

_LATELY_PERIODS = 30
"""For so long what is over is shown among what is not."""


async def goals_of(here: Here) -> list[Goal]:
    """All that has a deadline: what is not over, the nearest first, and then what just was.

    The visitor's own, or all.
    """
    goals = [goal for goal in here.goals.told() if here.admin or goal.owner == here.uid]
    goals += [of_platform(row) for row in await here.platforms()]
    world = here.house.world
    since_s = world.now() - _LATELY_PERIODS * world.rhythm.interval_s
    under_way = [goal for goal in goals if goal.ended_s is None]
    over = [goal for goal in goals if goal.ended_s is not None and goal.ended_s >= since_s]
    return [
        *sorted(under_way, key=lambda goal: (goal.deadline_s is None, goal.deadline_s, goal.name)),
        *sorted(over, key=lambda goal: (-(goal.ended_s or 0.0), goal.name)),
    ]


def goals_table(goals: Sequence[Goal], names: Mapping[int, str], now_s: float) -> Markup:
    """Who will make it."""
    return table(
        "Work with deadlines: how much is done, and whether it will be in time",
        ("Work", "Tenant", "Done, and time passed", "Deadline", "Ends", "In time?"),
        [
            (
                link("platforms", goal.platform, goal.name),
                tenant(goal.owner, names),
                progress(goal, now_s),
                deadline(goal.deadline_s, now_s),
                ending(goal),
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
    shade = f"t{goal.owner % COLOURS}"
    words = f"{percent(goal.done)} done"
    if goal.ended_s is not None:
        return [bar(goal.done, None, shade), h("small", words)]
    passed = goal.passed(now_s)
    if passed is not None:
        words += f", {percent(min(passed, 1.0))} of its time"
    return [bar(goal.done, passed, shade), h("small", words)]


def ending(goal: Goal) -> Part:
    """How early or late it will be, or was."""
    if goal.projected_end_s is None or goal.deadline_s is None:
        return NONE
    slack_s = goal.deadline_s - goal.projected_end_s
    if abs(slack_s) < 1.0:
        return "right then"
    return f"{span(slack_s)} {'early' if slack_s > 0 else 'late'}"


def verdict(goal: Goal) -> Part:
    """Whether it is on track, or was in time, in words that are also a colour."""
    if goal.on_track is None or (goal.ended_s is not None and goal.state != "done"):
        return h("span", goal.state, class_="badge")
    if goal.on_track:
        return h("span", "✓ on track" if goal.ended_s is None else "✓ in time", class_="badge good")
    return h("span", "▲ late", class_="badge bad")
