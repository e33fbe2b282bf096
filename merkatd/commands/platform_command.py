"""The command `platform`: virtual platforms from submission to their end."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from merkatd.commands.ask_daemon import Ask, add_view, show_view, user
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_parser import NotDoneError
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import ConflictingArgumentsError
from merkatd.commands.terminal.platform_text import platform_lines
from merkatd.commands.terminal.table_columns import shortened
from merkatd.commands.texts.empty_texts import NO_PLATFORMS
from merkatd.commands.texts.limit_quote_text import LIMIT_QUOTE_TABLE, platform_quote_lines

_CHANGEABLE = ("deadline", "performance", "budget", "replenishment")


PLATFORM_TABLE = ScreenTable(
    "PLATFORM",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "the platform's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the platform's name", least=6),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "its tenant's id"),
        Column(
            "CONTROLLER", "controller", ColumnFormat.TEXT, "the kind of its controller", least=6
        ),
        Column("STATE", "state", ColumnFormat.TEXT, "its state"),
        Column("VMS", "size", ColumnFormat.WHOLE, "number of VMs that it should have"),
        Column(
            "ON_TRACK",
            "on_track",
            ColumnFormat.TEXT,
            "whether it will meet its goal",
            optional=True,
        ),
        Column(
            "DONE",
            "done",
            ColumnFormat.NUMBER,
            "the part of its work done (0 to 1)",
            optional=True,
        ),
        Column("DEADLINE", "deadline_s", ColumnFormat.TIME, "its deadline", optional=True),
        Column(
            "END", "projected_end_s", ColumnFormat.TIME, "when it expects to end", default=False
        ),
        Column("SPENT", "spent", ColumnFormat.CREDITS, "what its VMs cost up to now", kept=True),
        Column("BALANCE", "balance", ColumnFormat.CREDITS, "credits left"),
        Column("BUDGET", "budget", ColumnFormat.CREDITS, "its budget, in credits", default=False),
        Column(
            "APPLICATION",
            "application",
            ColumnFormat.WHOLE,
            "the application that pays",
            default=False,
        ),
        Column(
            "SUBMITTED", "submitted_s", ColumnFormat.TIME, "when it was submitted", default=False
        ),
        Column("SINCE", "since_s", ColumnFormat.TIME, "when it entered its state", default=False),
        Column("WHY", "why", ColumnFormat.TEXT, "reason for its state", default=False, least=10),
        Column(
            "NEEDS", "needs", ColumnFormat.TEXT, "its missing conditions", default=False, least=10
        ),
    ),
    NO_PLATFORMS,
)
VERBS = ("submit", "quote", "list", "show", "update", "suspend", "resume", "stop")
_WITH_FILE = ("submit", "quote")
"""The verbs that need a template and its tenant."""
WATCH_S = 5.0
_LONGEST = 32_768


def add_platform_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `platform`."""
    parser.add_argument("what", metavar="WHAT", choices=VERBS, help=", ".join(VERBS))
    parser.add_argument(
        "subject",
        metavar="FILE",
        nargs="?",
        help="with submit and quote: the template file, - reads standard input; else the platform's"
        " id",
    )
    parser.add_argument(
        "--tenant",
        metavar="TENANT",
        type=command_parser.reference,
        help="with submit and quote: the owner; with list: show only this owner's; a user's id or"
        " name",
    )
    parser.add_argument(
        "--deadline",
        metavar="WHEN",
        type=command_parser.reference,
        help="with update: the new deadline",
    )
    parser.add_argument(
        "--performance",
        metavar="P",
        type=command_parser.bid,
        help="with update: the performance to reach, in its controller's own measure",
    )
    parser.add_argument(
        "--budget",
        metavar="X",
        type=command_parser.bid,
        help="with update: set the budget and the balance to X credits",
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
        help=f"with show: show it again every {WATCH_S:g} seconds, until Ctrl-C",
    )
    parser.set_defaults(before_submit=_nothing)
    tables = dict.fromkeys(VERBS, PLATFORM_TABLE)
    add_view(parser, {**tables, "quote": LIMIT_QUOTE_TABLE})


def _nothing(_ask: Ask, _arguments: argparse.Namespace, _template: str) -> None:
    """Do nothing before a submission: `merkat` shows a quote and asks there."""


def run_platform(arguments: argparse.Namespace) -> int:
    """Show or change platforms."""
    if arguments.what == "quote":
        return show_view(
            "platform",
            arguments,
            LIMIT_QUOTE_TABLE,
            lambda ask: _ask(ask, arguments),
            rows=lambda answer: answer["odds"],
            text=platform_quote_lines,
            whole=True,
        )
    listing = arguments.what == "list"
    if arguments.watch and arguments.delay is None:
        arguments.delay = WATCH_S
    return show_view(
        "platform",
        arguments,
        PLATFORM_TABLE,
        lambda ask: _ask(ask, arguments),
        rows=lambda answer: answer if listing else [answer],
        text=_list_lines if listing else platform_lines,
        whole=not listing,
        changes=arguments.what not in {"list", "show"},
    )


def _ask(ask: Ask, arguments: argparse.Namespace) -> Any:
    what = arguments.what
    _check(arguments)
    if what == "list":
        return ask("platforms", tenant=arguments.tenant)
    if what == "submit":
        text = _read(arguments.subject)
        arguments.before_submit(ask, arguments, text)
        return ask("platform_submit", tenant=arguments.tenant, template=text, who=user())
    if what == "quote":
        text = _read(arguments.subject)
        return ask("platform_quote", tenant=arguments.tenant, template=text)
    platform = _id(arguments.subject)
    if what == "show":
        return ask("platform", platform=platform)
    changes = {name: vars(arguments)[name] for name in _CHANGEABLE}
    return ask(f"platform_{what}", platform=platform, who=user(), **changes)


def _check(given: argparse.Namespace) -> None:
    """Raise ConflictingArgumentsError if the arguments do not fit the verb."""
    what = given.what
    if (given.subject is None) != (what == "list"):
        with_file = dict.fromkeys(
            _WITH_FILE, " FILE" if given.door.is_own else " FILE --tenant TENANT"
        )
        usage = {"list": "", **with_file}.get(what, " ID")
        raise ConflictingArgumentsError(
            f"wrong number of arguments; expected: {given.door.program} platform {what}{usage}"
        )
    if given.tenant is not None and what not in {"list", *_WITH_FILE}:
        raise ConflictingArgumentsError("--tenant can be used only with submit, quote and list")
    if what in _WITH_FILE and given.tenant is None and not given.door.is_own:
        raise ConflictingArgumentsError(f"{what} needs --tenant TENANT")
    if any(vars(given)[name] is not None for name in _CHANGEABLE) != (what == "update"):
        options = "--deadline, --performance, --budget or --replenishment"
        raise ConflictingArgumentsError(
            f"{options}: update needs at least one, other verbs accept none"
        )
    if given.watch and what != "show":
        raise ConflictingArgumentsError("--watch can be used only with show")


def _id(word: str) -> int:
    try:
        return command_parser.whole(word)
    except argparse.ArgumentTypeError as error:
        raise ConflictingArgumentsError(str(error)) from None


def _read(name: str) -> str:
    """Return a template's text. Raise NotDoneError if it can't be read."""
    try:
        if name == "-":
            content = sys.stdin.buffer.read(_LONGEST + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(_LONGEST + 1)
        text = content.decode()
    except OSError as error:
        raise NotDoneError(f"{shortened(name)}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotDoneError(f"{shortened(name)}: the file is not text in UTF-8") from None
    except ValueError:
        raise NotDoneError(f"{shortened(name)}: this is not a valid file name") from None
    if len(content) > _LONGEST:
        raise NotDoneError(f"{shortened(name)}: a template must have at most {_LONGEST} bytes")
    return text


def _list_lines(answer: Any, cells: int | None) -> Sequence[str]:
    rows = [row | {"on_track": _yes(row["on_track"])} for row in answer]
    return list(to_text(PLATFORM_TABLE.default(), rows, cells))


def _yes(value: Any) -> str | None:
    return None if value is None else ("yes" if value else "no")


PLATFORM = Verb(
    "platform",
    summary="submit, quote, show, change and stop virtual platforms",
    description="""\
`merkatd platform`: submit, quote, show, change, suspend, resume and stop virtual platforms.

merkatd platform submit FILE --tenant TENANT: run the template's platform; - reads standard input.

merkatd platform quote FILE --tenant TENANT: which limit would start the patient platform of this
template now, and how limits would have done in the recorded past, with the chance to be done by its
deadline. The template is checked as by submit, and the quote changes nothing.

merkatd platform list: all platforms, or with --tenant those of one tenant.

merkatd platform show ID: state, progress, costs, and what it needs to start; --watch repeats it.

merkatd platform update ID --deadline WHEN --performance P --budget X --replenishment Y: change its
goal or its credits, also while it runs.

merkatd platform suspend ID: suspend it until merkatd platform resume ID.

merkatd platform stop ID: end it and its VMs; credits left return to its tenant.

WHEN is a duration from now, like 90m or 6h, or a time like 2026-05-01T09:00:00Z. The template
format is documented in docs/platforms.md.
""",
    add_arguments=add_platform_arguments,
    run=run_platform,
)
