"""`platform`."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from merkatd.base.quantities import credits_text, time_text
from merkatd.commands.ask_daemon import Ask, add_view, show_view, user
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_parser import NotDoneError
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import WordsError
from merkatd.commands.terminal.screen_text import wrapped
from merkatd.commands.terminal.table_columns import shortened

_SOLD = {"cpu": ("a core", 100.0), "memory": ("a GiB", 1024.0)}
"""What people call so many units."""
_AS_THEY_ARE = "Its VMs and their bids stay as they are; `merkatd platform stop` ends them."
_UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


def lines_of(answer: Any, cells: int | None) -> Sequence[str]:
    """What it is, how it fares, what it has, what it would take, what was done last."""
    lines: list[str] = []
    for text in _texts(answer):
        lines += wrapped(text, cells)
    if answer["vms"]:
        lines.append("")
        for one in answer["vms"]:
            lines += wrapped(_vm(one), cells, "  ", "    ")
    if answer["actions"]:
        lines += ["", "Last actions:"]
        for one in answer["actions"]:
            lines += wrapped(_action(one), cells, "  ", "    ")
    return lines


def _texts(one: Any) -> Iterator[str]:
    why = f": {one['why']}" if one["why"] else ""
    yield f"Platform {one['id']} ({one['name']}) of tenant {one['owner']} is {one['state']}{why}."
    if one["held"] and one["state"] not in _OVER:
        yield "Its tenant suspended it: it waits to be resumed."
    if one["state"] in _OVER:
        spent = f"Spent {_amount(one['spent'])} of {_amount(one['budget'])} credits"
        yield f"{spent}; the rest went back."
        if one["needs"]:
            yield f"What it would have taken: {one['needs']}."
        return
    if one.get("unattended"):
        yield f"The daemon fails to look after it: {one['unattended']}. {_AS_THEY_ARE}"
    if one["trouble"]:
        yield f"Its controller fails: {one['trouble']}. Its VMs bid nothing until it works again."
    yield from _track(one)
    money = f"Spent {_amount(one['spent'])} credits, {_amount(one['balance'])} left"
    yield f"{money} of {_amount(one['budget'])}{_refill(one)}."
    yield from _market(one)
    if one["takes"]:
        yield f"What it would take: {one['takes']}."


def _market(one: Any) -> Iterator[str]:
    if one["prices"]:
        prices = ", ".join(_price(name, price) for name, price in one["prices"].items())
        yield f"Prices now, of a period in market {one['market']}: {prices}."
    if one["full_cost"] is not None:
        bids = f"; they bid {_amount(one['bids'])}" if one["vms"] else ""
        cost = f"{_amount(one['full_cost'])} credits a period at these prices{bids}"
        yield f"All that its VMs can use costs {cost}."


def _track(one: Any) -> Iterator[str]:
    if one["deadline_s"] is not None:
        yield f"Deadline {time_text(one['deadline_s'])}."
    if one["on_track"] is not None:
        said = "On track" if one["on_track"] else "NOT on track"
        slack = one["slack_s"]
        if slack is not None:
            side = "before" if slack >= 0 else "after"
            said += f": done {_lasting(abs(slack))} {side} its deadline as things are"
        yield f"{said}."
    if one["done"] is not None:
        yield f"{one['done']:.1%} of its work is done."
    if one["performance"] is not None:
        wanted = f", {one['reference']:.4g} is wanted" if one["reference"] is not None else ""
        yield f"Performance {one['performance']:.4g}{wanted}."
    if one["report"]:
        yield f"Its controller says: {one['report']}"


def _refill(one: Any) -> str:
    amount = one["replenishment"]
    return f", and {_amount(amount)} more at every replenishment" if amount else ""


def _vm(one: Any) -> str:
    head = f"VM {one['vm']} in {one['cluster']}: {one['state']}"
    if one["leaving"]:
        head += ", to be ended"
    if one.get("cpu") is None or one["state"] not in {"running", "busy"}:
        return head
    return (
        f"{head}, gets {one['cpu']:.0f} % of a core, bidding {_amount(one['bid_cpu'])},"
        f" and {one['memory']:.0f} MiB, bidding {_amount(one['bid_memory'])}"
    )


def _action(one: Any) -> str:
    refused = " REFUSED" if one["refused"] else ""
    text = f": {one['text']}" if one["text"] else ""
    return f"{time_text(one['at_s'])}  {one['who']}: {one['what']}{refused}{text}"


def _lasting(seconds: float) -> str:
    unit, length = next(((u, s) for u, s in _UNITS if seconds >= s), ("s", 1.0))
    return f"{seconds / length:.3g} {unit}"


def _price(name: str, price: float | None) -> str:
    unit, size = _SOLD.get(name, (name, 1.0))
    return f"{unit} {'not to be had' if price is None else _amount(price * size)}"


def _amount(value: float) -> str:
    """Credits, however few, without an exponent."""
    return format(Decimal(f"{value:.4g}"), "f") if abs(value) < 1000 else credits_text(value)


_OVER = frozenset({"done", "cancelled", "failed"})


PLATFORM_TABLE = ScreenTable(
    "PLATFORM",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "its id"),
        Column("NAME", "name", ColumnFormat.TEXT, "its name", least=6),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "the tenant whose it is"),
        Column(
            "CONTROLLER", "controller", ColumnFormat.TEXT, "the kind of its controller", least=6
        ),
        Column("STATE", "state", ColumnFormat.TEXT, "where it is in its life"),
        Column("VMS", "size", ColumnFormat.WHOLE, "how many VMs it is to have"),
        Column(
            "ON_TRACK", "on_track", ColumnFormat.TEXT, "as its controller sees it", optional=True
        ),
        Column(
            "DONE", "done", ColumnFormat.NUMBER, "the part of its work that is done", optional=True
        ),
        Column("DEADLINE", "deadline_s", ColumnFormat.TIME, "its deadline", optional=True),
        Column(
            "END", "projected_end_s", ColumnFormat.TIME, "when it expects to be done", default=False
        ),
        Column("SPENT", "spent", ColumnFormat.CREDITS, "what its VMs cost up to now"),
        Column("BALANCE", "balance", ColumnFormat.CREDITS, "what it has left"),
        Column("BUDGET", "budget", ColumnFormat.CREDITS, "what it was given", default=False),
        Column("APPLICATION", "application", ColumnFormat.WHOLE, "who pays", default=False),
        Column(
            "SUBMITTED", "submitted_s", ColumnFormat.TIME, "when it was submitted", default=False
        ),
        Column(
            "SINCE", "since_s", ColumnFormat.TIME, "since when it is in its state", default=False
        ),
        Column("WHY", "why", ColumnFormat.TEXT, "why it is in its state", default=False, least=10),
        Column("NEEDS", "needs", ColumnFormat.TEXT, "what it would take", default=False, least=10),
    ),
)
VERBS = ("submit", "list", "show", "update", "suspend", "resume", "stop")
WATCH_S = 5.0
_LONGEST = 32_768


def add_platform_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `platform`."""
    parser.add_argument("what", metavar="WHAT", choices=VERBS, help=", ".join(VERBS))
    parser.add_argument(
        "subject",
        metavar="FILE",
        nargs="?",
        help="with submit: the file that holds the template, - for standard input; else the"
        " platform's id",
    )
    parser.add_argument(
        "--tenant",
        metavar="TENANT",
        type=command_parser.reference,
        help="with submit: whose it is to be; with list: whose to show; a user's id or name",
    )
    parser.add_argument(
        "--deadline",
        metavar="WHEN",
        type=command_parser.reference,
        help="with update: another deadline",
    )
    parser.add_argument(
        "--performance",
        metavar="P",
        type=command_parser.bid,
        help="with update: what it is to reach, in its controller's own measure",
    )
    parser.add_argument(
        "--budget",
        metavar="X",
        type=command_parser.bid,
        help="with update: it holds X credits from now on",
    )
    parser.add_argument(
        "--replenishment",
        metavar="Y",
        type=command_parser.bid,
        help="with update: add Y credits at every interval",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help=f"with show: again every {WATCH_S:g} seconds, until Ctrl-C",
    )
    add_view(parser, dict.fromkeys(VERBS, PLATFORM_TABLE))


def run_platform(arguments: argparse.Namespace) -> int:
    """Ask or tell, and print what it is then."""
    listing = arguments.what == "list"
    if arguments.watch and arguments.delay is None:
        arguments.delay = WATCH_S
    return show_view(
        "platform",
        arguments,
        PLATFORM_TABLE,
        lambda ask: _ask(ask, arguments),
        rows=lambda answer: answer if listing else [answer],
        text=_list_lines if listing else lines_of,
        whole=not listing,
    )


def _ask(ask: Ask, arguments: argparse.Namespace) -> Any:
    what = arguments.what
    _check(arguments)
    if what == "list":
        return ask("platforms", tenant=arguments.tenant)
    if what == "submit":
        text = _read(arguments.subject)
        return ask("platform_submit", tenant=arguments.tenant, template=text, who=user())
    platform = _id(arguments.subject)
    if what == "show":
        return ask("platform", platform=platform)
    changes = {
        "deadline": arguments.deadline,
        "performance": arguments.performance,
        "budget": arguments.budget,
        "replenishment": arguments.replenishment,
    }
    return ask(f"platform_{what}", platform=platform, who=user(), **changes)


def _check(given: argparse.Namespace) -> None:
    """The words that go with each verb, no less and no more. Raises WordsError."""
    what = given.what
    if (given.subject is None) != (what == "list"):
        word = {"list": "", "submit": " FILE --tenant TENANT"}.get(what, " ID")
        raise WordsError(f"merkatd platform {what}{word} is right")
    if given.tenant is not None and what not in {"list", "submit"}:
        raise WordsError("--tenant: only with submit and list")
    if what == "submit" and given.tenant is None:
        raise WordsError("whose? --tenant TENANT goes with submit")
    changes = (given.deadline, given.performance, given.budget, given.replenishment)
    if any(one is not None for one in changes) != (what == "update"):
        raise WordsError(
            "--deadline, --performance, --budget, --replenishment go with update, one at least"
        )
    if given.watch and what != "show":
        raise WordsError("--watch: only with show")


def _id(word: str) -> int:
    try:
        return command_parser.whole(word)
    except argparse.ArgumentTypeError as error:
        raise WordsError(str(error)) from None


def _read(name: str) -> str:
    """A template's text. Raises NotDoneError."""
    try:
        if name == "-":
            found = sys.stdin.buffer.read(_LONGEST + 1)
        else:
            with Path(name).open("rb") as file:
                found = file.read(_LONGEST + 1)
        text = found.decode()
    except OSError as error:
        raise NotDoneError(f"{shortened(name)}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotDoneError(f"{shortened(name)}: it is no text in UTF-8") from None
    except ValueError:
        raise NotDoneError(f"{shortened(name)}: no file can be called so") from None
    if len(found) > _LONGEST:
        raise NotDoneError(f"{shortened(name)}: a template has at most {_LONGEST} bytes")
    return text


def _list_lines(answer: Any, cells: int | None) -> Sequence[str]:
    rows = [row | {"on_track": _yes(row["on_track"])} for row in answer]
    return list(to_text(PLATFORM_TABLE.default(), rows, cells))


def _yes(value: Any) -> str | None:
    return None if value is None else ("yes" if value else "no")


PLATFORM = Verb(
    "platform",
    summary="submit, show, change and stop virtual platforms",
    description="""\
`merkatd platform`: virtual platforms: submit, look at, change, suspend, resume and stop them.

merkatd platform submit FILE --tenant TENANT: have it looked after; - reads standard input.

merkatd platform list: all platforms, or with --tenant those of one tenant.

merkatd platform show ID: how it fares, what it cost and would take; --watch shows it again.

merkatd platform update ID --deadline WHEN --performance P --budget X --replenishment Y: also
while it runs.

merkatd platform suspend ID: until it is told to resume; merkatd platform resume ID.

merkatd platform stop ID: end it and its VMs; what is left of its budget goes back.

WHEN is a time from now, like 90m or 6h, or a time like 2026-05-01T09:00:00Z. What a template
says stands in docs/platforms.md.
""",
    add_arguments=add_platform_arguments,
    run=run_platform,
)
