"""`merkatd platform`: virtual platforms: submit, look at, change, suspend, resume and stop them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from merkatd.commands import words
from merkatd.commands.asking import Ask, NotDoneError, user
from merkatd.commands.output import WordsError
from merkatd.commands.platform_text import lines_of
from merkatd.commands.table import Column, Kind, Table, to_text
from merkatd.commands.table.columns import short
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

TABLE = Table(
    "PLATFORM",
    (
        Column("ID", "id", Kind.WHOLE, "its id"),
        Column("NAME", "name", Kind.TEXT, "its name", least=6),
        Column("OWNER", "owner", Kind.WHOLE, "the tenant whose it is"),
        Column("CONTROLLER", "controller", Kind.TEXT, "the kind of its controller", least=6),
        Column("STATE", "state", Kind.TEXT, "where it is in its life"),
        Column("VMS", "size", Kind.WHOLE, "how many VMs it is to have"),
        Column("ON_TRACK", "on_track", Kind.TEXT, "as its controller sees it", optional=True),
        Column("DONE", "done", Kind.NUMBER, "the part of its work that is done", optional=True),
        Column("DEADLINE", "deadline_s", Kind.TIME, "its deadline", optional=True),
        Column("END", "projected_end_s", Kind.TIME, "when it expects to be done", default=False),
        Column("SPENT", "spent", Kind.CREDITS, "what its VMs cost up to now"),
        Column("BALANCE", "balance", Kind.CREDITS, "what it has left"),
        Column("BUDGET", "budget", Kind.CREDITS, "what it was given", default=False),
        Column("APPLICATION", "application", Kind.WHOLE, "who pays", default=False),
        Column("SUBMITTED", "submitted_s", Kind.TIME, "when it was submitted", default=False),
        Column("SINCE", "since_s", Kind.TIME, "since when it is in its state", default=False),
        Column("WHY", "why", Kind.TEXT, "why it is in its state", default=False, least=10),
        Column("NEEDS", "needs", Kind.TEXT, "what it would take", default=False, least=10),
    ),
)

VERBS = ("submit", "list", "show", "update", "suspend", "resume", "stop")
WATCH_S = 5.0
_LONGEST = 32_768


def add_platform_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
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
        type=words.reference,
        help="with submit: whose it is to be; with list: whose to show; a user's id or name",
    )
    parser.add_argument(
        "--deadline", metavar="WHEN", type=words.reference, help="with update: another deadline"
    )
    parser.add_argument(
        "--performance",
        metavar="P",
        type=words.bid,
        help="with update: what it is to reach, in its controller's own measure",
    )
    parser.add_argument(
        "--budget", metavar="X", type=words.bid, help="with update: it holds X credits from now on"
    )
    parser.add_argument(
        "--replenishment",
        metavar="Y",
        type=words.bid,
        help="with update: add Y credits at every interval",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help=f"with show: again every {WATCH_S:g} seconds, until Ctrl-C",
    )
    add_view(parser, dict.fromkeys(VERBS, TABLE))


def run_platform(arguments: argparse.Namespace) -> int:
    """Ask or tell, and print what it is then."""
    listing = arguments.what == "list"
    if arguments.watch and arguments.delay is None:
        arguments.delay = WATCH_S
    return show_view(
        "platform",
        arguments,
        TABLE,
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
        return words.whole(word)
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
        raise NotDoneError(f"{short(name)}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotDoneError(f"{short(name)}: it is no text in UTF-8") from None
    except ValueError:
        raise NotDoneError(f"{short(name)}: no file can be called so") from None
    if len(found) > _LONGEST:
        raise NotDoneError(f"{short(name)}: a template has at most {_LONGEST} bytes")
    return text


def _list_lines(answer: Any, cells: int | None) -> Sequence[str]:
    rows = [row | {"on_track": _yes(row["on_track"])} for row in answer]
    return list(to_text(TABLE.default(), rows, cells))


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
