"""Commands that show past decisions: `log`, `shadow`."""

import argparse
import time
from collections.abc import Sequence
from typing import Any

from merkatd.commands.ask_daemon import Ask, add_newest, add_view, door_of, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import ConflictingArgumentsError, rows_of
from merkatd.commands.texts.empty_texts import NO_ORDERS_GIVEN, NO_STEPS
from merkatd.protocol.control_messages import KINDS, ORDER_KINDS, STATES

LOG_TABLE = ScreenTable(
    "STEP",
    (
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the period of the decision"),
        Column("TIME", "at_s", ColumnFormat.TIME, "the time of the decision", optional=True),
        Column("KIND", "kind", ColumnFormat.TEXT, "the kind of step"),
        Column("VM", "vm", ColumnFormat.WHOLE, "the VM's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name, while the VM exists", least=6),
        Column(
            "FROM",
            "source",
            ColumnFormat.TEXT,
            "the host that the VM leaves",
            default=False,
            least=6,
        ),
        Column("HOST", "host", ColumnFormat.TEXT, "the host that the VM goes to", least=6),
        Column("STATE", "state", ColumnFormat.TEXT, "the step's state"),
        Column(
            "GAIN",
            "gain",
            ColumnFormat.CREDITS,
            "the gain of a migration, in credits",
            default=False,
        ),
        Column("REASON", "reason", ColumnFormat.TEXT, "the reason", least=40, kept=True),
        Column(
            "REPLY",
            "reply",
            ColumnFormat.TEXT,
            "why the step was refused or expired",
            least=10,
            optional=True,
        ),
        Column("SENT", "sent_s", ColumnFormat.TIME, "when the step was sent", default=False),
        Column("ENDED", "ended_s", ColumnFormat.TIME, "when the step ended", default=False),
        Column("ID", "id", ColumnFormat.TEXT, "the step's id", default=False),
        Column(
            "AFTER",
            "after",
            ColumnFormat.LIST,
            "the steps that had to be done first",
            default=False,
        ),
    ),
    NO_STEPS,
)


ORDERS_TABLE = ScreenTable(
    "ORDER",
    (
        Column("TIME", "at_s", ColumnFormat.TIME, "when the order was given"),
        Column("ORDER", "order", ColumnFormat.TEXT, "the order"),
        Column("HOST", "host", ColumnFormat.TEXT, "the host that it is about", least=6),
        Column("WHO", "who", ColumnFormat.TEXT, "the user that gave it", least=6),
        Column(
            "FROM",
            "origin",
            ColumnFormat.TEXT,
            "the interface and the address from which it came",
            least=10,
        ),
        Column("KIND", "kind", ColumnFormat.TEXT, "its kind, as --kind takes it", default=False),
    ),
    NO_ORDERS_GIVEN,
)


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `log`."""
    parser.add_argument(
        "--vm",
        metavar="VM",
        type=command_parser.reference,
        help="only steps of this VM, by id or name",
    )
    parser.add_argument(
        "--host",
        metavar="HOST",
        type=command_parser.reference,
        help="only steps to this host, by id or name",
    )
    steps = f"only steps of this kind: {', '.join(KINDS)}"
    orders = f"; administrators' orders instead of steps: {', '.join(ORDER_KINDS)} (all of them)"
    own = door_of(parser).is_own
    parser.add_argument(
        "--kind",
        choices=KINDS if own else (*KINDS, *ORDER_KINDS),
        metavar="KIND",
        help=steps if own else f"{steps}{orders}",
    )
    parser.add_argument(
        "--state",
        choices=STATES,
        metavar="STATE",
        help=f"only steps in this state: {', '.join(STATES)}",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        type=command_parser.since,
        help="only decisions since: an age (30s, 90m, 2h, 7d) or a time (2026-05-01 12:00)",
    )
    parser.add_argument(
        "--period",
        metavar="N",
        type=command_parser.periods,
        help="only decisions of period N, or of N-M",
    )
    add_newest(parser)
    add_view(parser, {"log": LOG_TABLE} if own else {"log": LOG_TABLE, "orders": ORDERS_TABLE})


def run_log(arguments: argparse.Namespace) -> int:
    """Show the steps of past periods, or administrators' orders."""
    if arguments.kind in ORDER_KINDS:
        return show_view("log", arguments, ORDERS_TABLE, lambda ask: _ask_orders(ask, arguments))
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


def _ask_orders(ask: Ask, arguments: argparse.Namespace) -> Any:
    for name in ("vm", "state", "period"):
        if getattr(arguments, name) is not None:
            raise ConflictingArgumentsError(f"--{name} can't be combined with --kind of an order")
    newest_first = ask(
        "orders",
        kind=arguments.kind,
        host=arguments.host,
        since_s=_since_s(ask, arguments.since),
        limit=arguments.limit,
    )
    return list(reversed(newest_first))


def _since_s(ask: Ask, since: tuple[str, float] | None) -> float | None:
    """Return the start in the cloud's time, which may differ from this machine's time."""
    if since is None:
        return None
    how, value = since
    if how == "at":
        return value
    now_s = ask("status").get("now_s")
    return max((time.time() if now_s is None else now_s) - value, 0.0)


LOG = Verb(
    "log",
    summary="show past decisions and their reasons",
    description="""\
`merkatd log`: past decisions, newest last: each step with its VM, its reason and its result.

A step is planned, then sent, and confirmed when the daemon observes its effect. It is refused if
OpenNebula or the host rejects it, and expired if it has no effect in time.

With --kind order the command shows administrators' orders instead: pauses, changed modes, and
drained hosts, each with its time, its author, and where it came from.
""",
    add_arguments=add_log_arguments,
    run=run_log,
)


SHADOW_TABLE = ScreenTable(
    "PLACED",
    (
        Column(
            "TIME", "at_s", ColumnFormat.TIME, "when the daemon saw the VM there", optional=True
        ),
        Column(
            "PERIOD",
            "period",
            ColumnFormat.WHOLE,
            "the period that saw the VM there",
            default=False,
        ),
        Column("VM", "vm", ColumnFormat.WHOLE, "the VM's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=6),
        Column(
            "FROM",
            "source",
            ColumnFormat.TEXT,
            "the VM's earlier host; empty for a new placement",
            optional=True,
        ),
        Column(
            "THEIRS",
            "theirs",
            ColumnFormat.TEXT,
            "the host that the other scheduler chose",
            least=6,
        ),
        Column(
            "OURS", "ours", ColumnFormat.TEXT, "the host that Merkat would have chosen", least=6
        ),
        Column("SAME", "same", ColumnFormat.TEXT, "whether both hosts are the same"),
        Column(
            "WHY",
            "why",
            ColumnFormat.TEXT,
            "Merkat's reason for its host, or for no host",
            least=30,
            kept=True,
        ),
    ),
)


def add_shadow_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `shadow`."""
    add_newest(parser)
    add_view(parser, {"shadow": SHADOW_TABLE})


def run_shadow(arguments: argparse.Namespace) -> int:
    """Show how another scheduler's decisions compare with Merkat's."""
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
        lines = ["No other scheduler placed a VM while the mode was shadow."]
    else:
        part = f"{100 * same / compared:.0f} %"
        lines = [
            f"Another scheduler placed {compared} VMs, {same} ({part}) on Merkat's own choice."
        ]
    moves, alone = int(answer["moved"]), int(answer["ours_alone"])
    if moves or alone:
        alike = int(answer["moved_alike"])
        lines.append(
            f"Other schedulers moved {moves} VMs, {alike} of them as Merkat would have."
            f" Only Merkat would have moved {alone} more."
        )
    if answer["would_move"] is not None:
        lines.append(f"Merkat would move {int(answer['would_move'])} VMs now.")
    rows = rows_of(list(reversed(answer["vms"])))
    return lines + (to_text(SHADOW_TABLE.default(), rows, cells) if rows else [])


SHADOW = Verb(
    "shadow",
    summary="compare another scheduler's placements and moves with Merkat's",
    description="""\
`merkatd shadow`: compare another scheduler's placements and moves with Merkat's decisions.

In mode shadow another scheduler acts; Merkat decides too, but sends nothing. For each VM that was
placed since the last period, Merkat decides again in the same cloud without that VM. It compares
each move with the moves that it would have made then, and lists its own other moves once.
""",
    add_arguments=add_shadow_arguments,
    run=run_shadow,
)
