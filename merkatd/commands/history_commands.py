"""`log`, `shadow`."""

import argparse
import time
from collections.abc import Sequence
from typing import Any

from merkatd.commands.ask_daemon import Ask, add_newest, add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of
from merkatd.protocol.control_messages import KINDS, STATES

LOG_TABLE = ScreenTable(
    "STEP",
    (
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the period that decided it"),
        Column("TIME", "at_s", ColumnFormat.TIME, "when it was decided", optional=True),
        Column("KIND", "kind", ColumnFormat.TEXT, "what is done"),
        Column("VM", "vm", ColumnFormat.WHOLE, "the VM's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name, as long as it exists", least=6),
        Column("FROM", "source", ColumnFormat.TEXT, "the host it leaves", default=False, least=6),
        Column("HOST", "host", ColumnFormat.TEXT, "the host it is taken to", least=6),
        Column("STATE", "state", ColumnFormat.TEXT, "how far it came"),
        Column("GAIN", "gain", ColumnFormat.CREDITS, "what a migration was worth", default=False),
        Column("REASON", "reason", ColumnFormat.TEXT, "why", least=40),
        Column(
            "REPLY",
            "reply",
            ColumnFormat.TEXT,
            "why it was refused or expired",
            least=10,
            optional=True,
        ),
        Column("SENT", "sent_s", ColumnFormat.TIME, "when it was sent", default=False),
        Column("ENDED", "ended_s", ColumnFormat.TIME, "when that was known", default=False),
        Column("ID", "id", ColumnFormat.TEXT, "the step's id", default=False),
        Column(
            "AFTER", "after", ColumnFormat.LIST, "the steps that had to come first", default=False
        ),
    ),
)


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "--vm", metavar="VM", type=command_parser.reference, help="of this VM, id or name"
    )
    parser.add_argument(
        "--host", metavar="HOST", type=command_parser.reference, help="to this host, id or name"
    )
    parser.add_argument("--kind", choices=KINDS, metavar="KIND", help=f"one of {', '.join(KINDS)}")
    parser.add_argument(
        "--state", choices=STATES, metavar="STATE", help=f"one of {', '.join(STATES)}"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=command_parser.since,
        help="decided since: so long ago (30s, 90m, 2h, 7d), or a time (2026-05-01 12:00)",
    )
    parser.add_argument(
        "--period", metavar="N", type=command_parser.periods, help="of this period, or of N-M"
    )
    add_newest(parser)
    add_view(parser, {"log": LOG_TABLE})


def run_log(arguments: argparse.Namespace) -> int:
    """Ask, and print the rows."""
    return show_view("log", arguments, LOG_TABLE, lambda ask: _ask(ask, arguments))


def _ask(ask: Ask, arguments: argparse.Namespace) -> Any:
    first, last = arguments.period or (None, None)
    newest_first = ask(
        "steps",
        vm=arguments.vm,
        host=arguments.host,
        kind=arguments.kind,
        state=arguments.state,
        first_period=first,
        last_period=last,
        since_s=_since_s(ask, arguments.since),
        limit=arguments.limit,
    )
    return list(reversed(newest_first))


def _since_s(ask: Ask, since: tuple[str, float] | None) -> float | None:
    """In the cloud's own time, which need not be this machine's."""
    if since is None:
        return None
    how, value = since
    if how == "at":
        return value
    now_s = ask("status").get("now_s")
    return max((time.time() if now_s is None else now_s) - value, 0.0)


LOG = Verb(
    "log",
    summary="show the decisions, with their reasons",
    description="""\
`merkatd log`: the decisions, newest last: what was done to whom, why, and what became of it.

A step is planned, then sent, and confirmed once it is seen to have happened; it is refused
where OpenNebula or the host would not, and expired where nothing came of it.
""",
    add_arguments=add_log_arguments,
    run=run_log,
)


SHADOW_TABLE = ScreenTable(
    "PLACED",
    (
        Column("TIME", "at_s", ColumnFormat.TIME, "when it was seen there", optional=True),
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the period that saw it", default=False),
        Column("VM", "vm", ColumnFormat.WHOLE, "the VM's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=6),
        Column(
            "FROM",
            "source",
            ColumnFormat.TEXT,
            "where it was; empty where it was placed",
            optional=True,
        ),
        Column("THEIRS", "theirs", ColumnFormat.TEXT, "the host that the other one chose", least=6),
        Column(
            "OURS", "ours", ColumnFormat.TEXT, "the host that Merkat would have chosen", least=6
        ),
        Column("SAME", "same", ColumnFormat.TEXT, "whether these are the same"),
        Column("WHY", "why", ColumnFormat.TEXT, "why there, or why it would have waited", least=30),
    ),
)


def add_shadow_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_newest(parser)
    add_view(parser, {"shadow": SHADOW_TABLE})


def run_shadow(arguments: argparse.Namespace) -> int:
    """Ask, and print the rows."""
    return show_view(
        "shadow",
        arguments,
        SHADOW_TABLE,
        lambda ask: ask("differences", limit=arguments.limit),
        rows=lambda answer: list(reversed(answer["vms"])),
        text=_shadow_text,
        whole=True,
    )


def _shadow_text(answer: Any, cells: int | None) -> Sequence[str]:
    compared, same = int(answer["compared"]), int(answer["same"])
    if not compared:
        lines = ["No VM was placed by another scheduler while the mode was shadow."]
    else:
        part = f"{100 * same / compared:.0f} %"
        lines = [f"{compared} VMs were placed by another scheduler, {same} ({part}) as by Merkat."]
    moves, alone = int(answer["moved"]), int(answer["ours_alone"])
    if moves or alone:
        alike = int(answer["moved_alike"])
        lines.append(
            f"{moves} were moved by others, {alike} of them as by Merkat,"
            f" which alone would have moved {alone}."
        )
    if answer["would_move"] is not None:
        lines.append(f"Merkat would move {int(answer['would_move'])} VMs now.")
    rows = rows_of(list(reversed(answer["vms"])))
    return lines + (to_text(SHADOW_TABLE.default(), rows, cells) if rows else [])


SHADOW = Verb(
    "shadow",
    summary="show what another scheduler placed and moved otherwise",
    description="""\
`merkatd shadow`: what another scheduler placed and moved, and what Merkat would have.

In mode shadow Merkat decides beside whoever acts, and sends nothing. What was placed since the last
look is decided again, in the same cloud without it. What was moved is held against what Merkat
would have moved then; what Merkat alone would have moved is told once.
""",
    add_arguments=add_shadow_arguments,
    run=run_shadow,
)
