"""`merkatd shadow`: where another scheduler placed VMs, and where Merkat would have.

In mode shadow Merkat decides beside the scheduler that acts, and sends nothing. What that one
placed since the last look is decided again, in the same cloud without it.
"""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.commands import words
from merkatd.commands.output import rows_of
from merkatd.commands.table import Column, Kind, Table, to_text
from merkatd.commands.view import add_view, show_view

SUMMARY = "show where another scheduler placed VMs elsewhere"

TABLE = Table(
    "PLACED",
    (
        Column("TIME", "at_s", Kind.TIME, "when it was seen there", optional=True),
        Column("PERIOD", "period", Kind.WHOLE, "the period that saw it", default=False),
        Column("VM", "vm", Kind.WHOLE, "the VM's id"),
        Column("NAME", "name", Kind.TEXT, "the VM's name", least=6),
        Column("THEIRS", "theirs", Kind.TEXT, "the host that the other one chose", least=6),
        Column("OURS", "ours", Kind.TEXT, "the host that Merkat would have chosen", least=6),
        Column("SAME", "same", Kind.TEXT, "whether these are the same"),
        Column("WHY", "why", Kind.TEXT, "why there, or why it would have waited", least=30),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "--limit",
        metavar="N",
        type=words.count,
        default=50,
        help="the newest N of them (default: 50)",
    )
    add_view(parser, {"shadow": TABLE})


def run(arguments: argparse.Namespace) -> int:
    """Ask, and print the rows."""
    return show_view(
        "shadow",
        arguments,
        TABLE,
        lambda ask: ask("differences", limit=arguments.limit),
        rows=lambda answer: list(reversed(answer["vms"])),
        text=_text,
        whole=True,
    )


def _text(answer: Any, cells: int | None) -> Sequence[str]:
    compared, same = int(answer["compared"]), int(answer["same"])
    if not compared:
        lines = ["No VM was placed by another scheduler while the mode was shadow."]
    else:
        part = f"{100 * same / compared:.0f} %"
        lines = [f"{compared} VMs were placed by another scheduler, {same} ({part}) as by Merkat."]
    if answer["would_move"] is not None:
        lines.append(f"Merkat would move {int(answer['would_move'])} VMs now.")
    rows = rows_of(list(reversed(answer["vms"])))
    return lines + (to_text(TABLE.default(), rows, cells) if rows else [])
