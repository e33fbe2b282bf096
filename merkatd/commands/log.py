"""`merkatd log`: the decisions, newest last: what was done to whom, why, and what became of it."""

import argparse
import time
from typing import Any

from merkatd.commands import words
from merkatd.commands.asking import Ask
from merkatd.commands.table import Column, Kind, Table
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_newest, add_view, show_view
from merkatd.protocol.control_messages import KINDS, STATES

TABLE = Table(
    "STEP",
    (
        Column("PERIOD", "period", Kind.WHOLE, "the period that decided it"),
        Column("TIME", "at_s", Kind.TIME, "when it was decided", optional=True),
        Column("KIND", "kind", Kind.TEXT, "what is done"),
        Column("VM", "vm", Kind.WHOLE, "the VM's id"),
        Column("NAME", "name", Kind.TEXT, "the VM's name, as long as it exists", least=6),
        Column("FROM", "source", Kind.TEXT, "the host it leaves", default=False, least=6),
        Column("HOST", "host", Kind.TEXT, "the host it is taken to", least=6),
        Column("STATE", "state", Kind.TEXT, "how far it came"),
        Column("GAIN", "gain", Kind.CREDITS, "what a migration was worth", default=False),
        Column("REASON", "reason", Kind.TEXT, "why", least=40),
        Column(
            "REPLY", "reply", Kind.TEXT, "why it was refused or expired", least=10, optional=True
        ),
        Column("SENT", "sent_s", Kind.TIME, "when it was sent", default=False),
        Column("ENDED", "ended_s", Kind.TIME, "when that was known", default=False),
        Column("ID", "id", Kind.TEXT, "the step's id", default=False),
        Column("AFTER", "after", Kind.LIST, "the steps that had to come first", default=False),
    ),
)


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--vm", metavar="VM", type=words.reference, help="of this VM, id or name")
    parser.add_argument(
        "--host", metavar="HOST", type=words.reference, help="to this host, id or name"
    )
    parser.add_argument("--kind", choices=KINDS, metavar="KIND", help=f"one of {', '.join(KINDS)}")
    parser.add_argument(
        "--state", choices=STATES, metavar="STATE", help=f"one of {', '.join(STATES)}"
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=words.since,
        help="decided since: so long ago (30s, 90m, 2h, 7d), or a time (2026-05-01 12:00)",
    )
    parser.add_argument(
        "--period", metavar="N", type=words.periods, help="of this period, or of N-M"
    )
    add_newest(parser)
    add_view(parser, {"log": TABLE})


def run_log(arguments: argparse.Namespace) -> int:
    """Ask, and print the rows."""
    return show_view("log", arguments, TABLE, lambda ask: _ask(ask, arguments))


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
