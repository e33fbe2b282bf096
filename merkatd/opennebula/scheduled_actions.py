"""Users' scheduled actions (SCHED_ACTION): due actions, and running them for older servers.

From 6.8 on oned runs scheduled actions itself. For older servers this module finds the due
SCHED_ACTION vectors of a VM's template, runs them, and writes the result into the vectors.
"""

import calendar
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import zip_longest
from typing import TypeVar
from xml.sax.saxutils import escape

from twisted.logger import Logger

from merkatd.base.quantities import LATEST_S, bounded
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import OneError

Turned = TypeVar("Turned")
Action = Mapping[str, str]
"""A SCHED_ACTION vector: its parts by their upper-case names."""
_DAY_S = 24 * 3600
_HOUR_S = 3600
_LONGEST_NAME = 40
_MOST_DAYS = 2_000
"""The characters of DAYS that are read: more than all days of a year take."""


class _Repeat(IntEnum):
    WEEKLY = 0
    MONTHLY = 1
    YEARLY = 2
    HOURLY = 3


class _End(IntEnum):
    NEVER = 0
    TIMES = 1
    DATE = 2


@dataclass(frozen=True, slots=True)
class DueAction:
    """An action that is due."""

    id: int
    name: str
    """The action's name in oned, in lower case: suspend, snapshot-create..."""
    arguments: tuple[str, ...]
    action: Action


def due_actions(actions: Sequence[Action], now: float, started_s: float) -> list[DueAction]:
    """Return the actions of a VM to run now: the longest-due backup, and the longest-due other.

    `started_s` is when the VM was created: times that begin with + count from there.
    """
    due = [
        (at_s, row, action)
        for row, action in enumerate(actions)
        if (at_s := _time(action, started_s)) is not None and _is_due(action, at_s, now)
    ]
    due.sort(key=lambda action: action[:2])
    wanted = [
        DueAction(_id(action, row), _name(action), _arguments(action), action)
        for _, row, action in due
        if _name(action)
    ]
    others = [action for action in wanted if action.name != "backup"]
    backups = [action for action in wanted if action.name == "backup"]
    return others[:1] + backups[:1]


def done(action: Action, now: float, started_s: float) -> Action:
    """Return the action after it was run: with that time, and its next time if it repeats."""
    at_s = _time(action, started_s)
    values = {name: value for name, value in action.items() if name != "MESSAGE"}
    values["DONE"] = str(int(now))
    if at_s is None or at_s > int(now):
        return values
    return values | _later(action, at_s, now)


def failed(action: Action, now: float, why: str) -> Action:
    """Return the action after it failed, with the reason; it will be tried again."""
    at = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(now))
    return {**action, "MESSAGE": f"{at} : {why}"}


def call(due: DueAction, vm: int) -> tuple[str, tuple[int | str, ...]]:
    """Return the method of oned for an action, and the arguments after the session.

    Raise ValueError if the action is unknown or has wrong arguments.
    """
    form = _FORMS.get(due.name)
    if form is not None:
        method, kinds = form
        given = [kind(text) for kind, text in zip(kinds, due.arguments, strict=False)]
        if len(given) < len(kinds):
            raise ValueError(
                f"{due.name} needs {len(kinds)} ARGS, separated by commas (got {len(given)})"
            )
        return method, (vm, *given)
    if due.name not in _PLAIN:
        raise ValueError(f"{due.name} is not an action")
    return "one.vm.action", (due.name, vm)


def template(action: Action) -> str:
    """Return the text of an action for one.vm.schedupdate."""
    parts = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in action.items())
    return f"<TEMPLATE><SCHED_ACTION>{parts}</SCHED_ACTION></TEMPLATE>"


_PLAIN = frozenset({"hold", "release", "stop", "suspend", "resume"})
_PLAIN |= {
    f"{name}{how}"
    for name in ("terminate", "undeploy", "reboot", "poweroff")
    for how in ("", "-hard")
}
_FORMS: Mapping[str, tuple[str, tuple[type[int | str], ...]]] = {
    "snapshot-create": ("one.vm.snapshotcreate", (str,)),
    "snapshot-revert": ("one.vm.snapshotrevert", (int,)),
    "snapshot-delete": ("one.vm.snapshotdelete", (int,)),
    "disk-snapshot-create": ("one.vm.disksnapshotcreate", (int, str)),
    "disk-snapshot-revert": ("one.vm.disksnapshotrevert", (int, int)),
    "disk-snapshot-delete": ("one.vm.disksnapshotdelete", (int, int)),
    "backup": ("one.vm.backup", (int,)),
}


def _is_due(action: Action, at_s: int, now: float) -> bool:
    """Return whether the action's time has passed and it has not run since that time.

    A repeated action gets a later time after each run, so that DONE precedes TIME again.
    """
    ran = _whole(action.get("DONE", ""))
    return at_s < int(now) and (ran is None or ran < at_s)


def _time(action: Action, started_s: float) -> int | None:
    text = action.get("TIME", "")
    at_s = _whole(text.removeprefix("+"))
    if at_s is None:
        return None
    return int(bounded(at_s + started_s if text.startswith("+") else at_s))


def _later(action: Action, at_s: int, now: float) -> dict[str, str]:
    """Return the changes of a repeated action: its first time after now, in steps of equal length.

    The time is computed at once. OpenNebula's own scheduler adds one step after another, which
    takes minutes for a time long ago and short steps.
    """
    repeat = _choice(action, "REPEAT", _Repeat)
    numbers = map(_whole, action.get("DAYS", "")[:_MOST_DAYS].split(","))
    days = sorted({day for day in numbers if day is not None})
    if repeat is None or not days:
        return {}
    if repeat == _Repeat.HOURLY:
        step_s = days[0] * _HOUR_S
    else:
        step_s = _days_until(repeat, days, now) * _DAY_S
    if step_s <= 0:
        return {}
    wanted = (int(now) - at_s) // step_s + 1
    steps, ended = _counted_down(action, now, wanted)
    # At LATEST_S or later no action is ever due.
    later_s = min(at_s + steps * step_s, int(LATEST_S))
    return {**ended, "TIME": str(later_s)} if steps > 0 else {}


def _counted_down(action: Action, now: float, wanted: int) -> tuple[int, dict[str, str]]:
    """Return how many of the wanted steps the action's end allows, and the changes of its end."""
    end = _choice(action, "END_TYPE", _End)
    value = _whole(action.get("END_VALUE", ""))
    if end == _End.NEVER:
        return wanted, {}
    if end is None or value is None:
        return 0, {}
    if end == _End.DATE:
        return wanted if now <= value else 0, {}
    steps = min(wanted, max(value, 0))
    return steps, {"END_VALUE": str(value - steps)}


def _days_until(repeat: int, days: Sequence[int], now: float) -> int:
    """Return the days from today to the next of these days, in the server's time zone."""
    today = time.localtime(now)
    # Weeks begin on Sunday and years with day 0, as in C.
    day = {
        _Repeat.WEEKLY: (today.tm_wday + 1) % 7,
        _Repeat.MONTHLY: today.tm_mday,
        _Repeat.YEARLY: today.tm_yday - 1,
    }[_Repeat(repeat)]
    later = next((candidate for candidate in days if candidate > day), None)
    if later is not None:
        return later - day
    length = {
        _Repeat.WEEKLY: 7,
        _Repeat.MONTHLY: calendar.monthrange(today.tm_year, today.tm_mon)[1],
        _Repeat.YEARLY: 365 + calendar.isleap(today.tm_year),
    }[_Repeat(repeat)]
    return length - day + days[0]


def _choice(action: Action, name: str, choices: type[IntEnum]) -> int | None:
    number = _whole(action.get(name, ""))
    return number if number in set(choices) else None


def _whole(text: str) -> int | None:
    """Return the whole number that a text consists of, None if it is none."""
    text = text.strip()
    return int(text) if len(text) <= 18 and text.removeprefix("-").isdecimal() else None


def _id(action: Action, row: int) -> int:
    number = _whole(action.get("ID", ""))
    return row if number is None else number


def _name(action: Action) -> str:
    """Return the action's name in lower case; an unknown name is shortened for logs."""
    name = action.get("ACTION", "").strip().lower()
    return name if name in _PLAIN or name in _FORMS else ascii(name[:_LONGEST_NAME])[1:-1]


def _arguments(action: Action) -> tuple[str, ...]:
    text = action.get("ARGS", "")
    return tuple(text.split(",")) if text else ()


_log = Logger()


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A VM's scheduled actions."""

    vm: int
    owner: int
    made_s: float
    """When the VM was created: times that begin with + count from there."""
    actions: Sequence[Mapping[str, str]]


_MOST = 200
"""The most actions that are run in a period."""
_TURN_S = 60.0


async def run_due_actions(client: Client, scheduled: Sequence[Scheduled], now: float) -> None:
    """Run the due actions and write the result into each. Raise CloudUnreachableError.

    A refused action is tried again in the next period, as OpenNebula's own scheduler does. If more
    actions are due than a period runs, owners take turns, and so do the actions of each owner:
    refused ones block no others.
    """
    if (await client.dialect()).runs_scheduled_actions:
        return
    due_of_vms = [
        (entry, due) for entry in scheduled for due in due_actions(entry.actions, now, entry.made_s)
    ]
    for entry, due in _in_turns(due_of_vms, now)[:_MOST]:
        try:
            await _run(client, entry, due, now)
        except OneError as error:
            _log.warn(
                "The result of scheduled action {action} of VM {vm} can't be written: {why}",
                action=due.name,
                vm=entry.vm,
                why=str(error),
            )


_Due = tuple[Scheduled, DueAction]


def _in_turns(due_of_vms: Sequence[_Due], now: float) -> list[_Due]:
    """Return the actions in their order for this period: one of each owner, then the next."""
    if len(due_of_vms) <= _MOST:
        return list(due_of_vms)
    by_owner: dict[int, list[_Due]] = {}
    for pair in due_of_vms:
        by_owner.setdefault(pair[0].owner, []).append(pair)
    turn = int(now / _TURN_S)
    part = max(_MOST // len(by_owner), 1)
    queues = _from(list(by_owner.values()), turn * _MOST)
    rounds = zip_longest(*(_from(queue, turn * part) for queue in queues))
    return [pair for pairs in rounds for pair in pairs if pair is not None]


def _from(queue: Sequence[Turned], at: int) -> list[Turned]:
    """Return the queue from a place on, and then the part before it."""
    first = at % len(queue)
    return [*queue[first:], *queue[:first]]


async def _run(client: Client, entry: Scheduled, due: DueAction, now: float) -> None:
    about = f"VM {entry.vm} ({due.name}, scheduled)"
    try:
        method, arguments = call(due, entry.vm)
        await client.call(method, *arguments, about=about)
    except (OneError, ValueError) as error:
        values = failed(due.action, now, str(error))
        _log.warn(
            "Scheduled action {action} of VM {vm} failed: {why}",
            action=due.name,
            vm=entry.vm,
            why=str(error),
        )
    else:
        values = done(due.action, now, entry.made_s)
        _log.info("Scheduled action {action} of VM {vm} is done", action=due.name, vm=entry.vm)
    await client.call("one.vm.schedupdate", entry.vm, due.id, template(values), about=about)
