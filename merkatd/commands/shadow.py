"""`merkatd shadow`: what another scheduler placed and moved, and what Merkat would have."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.commands.output import rows_of
from merkatd.commands.table import Column, Kind, Table, to_text
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_newest, add_view, show_view

TABLE = Table(
    "PLACED",
    (
        Column("TIME", "at_s", Kind.TIME, "when it was seen there", optional=True),
        Column("PERIOD", "period", Kind.WHOLE, "the period that saw it", default=False),
        Column("VM", "vm", Kind.WHOLE, "the VM's id"),
        Column("NAME", "name", Kind.TEXT, "the VM's name", least=6),
        Column(
            "FROM", "source", Kind.TEXT, "where it was; empty where it was placed", optional=True
        ),
        Column("THEIRS", "theirs", Kind.TEXT, "the host that the other one chose", least=6),
        Column("OURS", "ours", Kind.TEXT, "the host that Merkat would have chosen", least=6),
        Column("SAME", "same", Kind.TEXT, "whether these are the same"),
        Column("WHY", "why", Kind.TEXT, "why there, or why it would have waited", least=30),
    ),
)


def add_shadow_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_newest(parser)
    add_view(parser, {"shadow": TABLE})


def run_shadow(arguments: argparse.Namespace) -> int:
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
    return lines + (to_text(TABLE.default(), rows, cells) if rows else [])


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
