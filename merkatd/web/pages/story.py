"""The overview in two or three sentences: what it costs, who gets most, and who will be in time."""

from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.web.charts import PER_UNIT
from merkatd.web.goals import Goal
from merkatd.web.pages.parts import amount, credits_, span

STORY_PERIODS = 10
_MUCH = 1.2
"""A price that has changed less than that has not changed to speak of."""
_NAMED = 3
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
Row = Mapping[str, Any]


def story(
    tenants: Sequence[Row],
    goals: Sequence[Goal],
    prices: Sequence[Row],
    names: Mapping[int, str],
    *,
    of_all: bool,
) -> str:
    """What is to be known first, of all tenants or of the only one; pure."""
    markets = {row["market"] for row in prices}
    cost = _price(prices) if len(markets) == 1 else ""
    shares = _most(tenants) if of_all else _own(tenants)
    return " ".join(part for part in (cost, shares, _in_time(goals, names)) if part)


def _price(prices: Sequence[Row]) -> str:
    known = [row["cpu"] for row in prices if row.get("cpu") is not None]
    if not known:
        return ""
    now, before = known[-1], known[0]
    said = f"A core costs {credits_(now * PER_UNIT['cpu'])} credits a period"
    periods = f"{_count(len(known) - 1)} period{'s' if len(known) > 2 else ''} ago"
    if before > 0 and now > before * _MUCH:
        return f"{said}, {now / before:.1f} times as much as {periods}."
    if now > 0 and before > now * _MUCH:
        return f"{said}, {1 - now / before:.0%} less than {periods}."
    return f"{said}."


def _most(tenants: Sequence[Row]) -> str:
    """Of who gets most, what for."""
    there = [row for row in tenants if row["cpu"] > 0]
    if not there:
        return "Nobody has a VM that runs."
    first = max(there, key=lambda row: (row["cpu"], row["name"]))
    cores = sum(row["cpu"] for row in there)
    if len(there) == 1:
        return f"{first['name']} is alone and gets all that it can use: {_cores(cores)}."
    return (
        f"{_count(len(there)).capitalize()} tenants share {_cores(cores)};"
        f" {first['name']} gets most, {_cores(first['cpu'])}, and pays"
        f" {credits_(first['cost'])} credits a period."
    )


def _own(tenants: Sequence[Row]) -> str:
    own = next(iter(tenants), None)
    if own is None or not own["vms"]:
        return "You have no VMs."
    said = (
        f"You get {_cores(own['cpu'])} and {amount('memory', own['memory'])} for"
        f" {credits_(own['cost'])} credits a period"
    )
    lasts_s = own["lasts_s"]
    return f"{said}, which your credits last for {span(lasts_s)}." if lasts_s else f"{said}."


def _cores(share: float) -> str:
    cores = round(share / PER_UNIT["cpu"], 1)
    return f"{cores:g} core{'' if cores == 1 else 's'}"


def _in_time(goals: Sequence[Goal], names: Mapping[int, str]) -> str:
    known = [goal for goal in goals if goal.ended_s is None and goal.on_track is not None]
    late = [goal for goal in known if not goal.on_track]
    if not known:
        return ""
    if not late:
        return "Every deadline will be kept." if len(known) > 1 else "The deadline will be kept."
    who = ", ".join(_named(goal, names) for goal in late[:_NAMED])
    more = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
    kept = f"{_count(len(known) - len(late))} of {_count(len(known))}".capitalize()
    return f"{kept} deadlines will be kept; late: {who}{more}."


def _named(goal: Goal, names: Mapping[int, str]) -> str:
    """A platform by its name, other work by whose it is."""
    return goal.name if goal.platform is not None else names.get(goal.owner, goal.name)


def _count(number: int) -> str:
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)
