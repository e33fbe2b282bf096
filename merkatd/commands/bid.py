"""`merkatd bid`: change what a VM bids, or show it; the newest word wins, whoever says it."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.commands import words
from merkatd.commands.asking import Ask
from merkatd.commands.output import rows_of
from merkatd.commands.table import Column, Kind, Table, to_text
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

RESOURCES = ("cpu", "memory", "network", "disk")

TABLE = Table(
    "BID",
    (
        Column("RESOURCE", "resource", Kind.TEXT, "cpu, memory ..."),
        Column("OLD", "old", Kind.CREDITS, "the bid until now, in credits a period"),
        Column("NEW", "new", Kind.CREDITS, "the bid from now on"),
        Column("SHARE", "share", Kind.NUMBER, "what the old one gets, in % of a core or MiB"),
        Column("NEW_SHARE", "new_share", Kind.NUMBER, "what the new one would get"),
        Column("COST", "cost", Kind.CREDITS, "what a period costs with the old one"),
        Column("NEW_COST", "new_cost", Kind.CREDITS, "and would cost with the new one"),
    ),
)


def add_bid_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("vm", metavar="VM", type=words.reference, help="the VM, by id or name")
    parser.add_argument("--cpu", metavar="X", type=words.bid, help="bid X credits a period for CPU")
    parser.add_argument(
        "--memory", metavar="Y", type=words.bid, help="bid Y credits a period for memory"
    )
    parser.add_argument(
        "--network", metavar="X", type=words.bid, help="bid X for network, where that is sold"
    )
    parser.add_argument(
        "--disk", metavar="X", type=words.bid, help="bid X for disks, where that is sold"
    )
    add_view(parser, {"bid": TABLE}, follow=False)


def run_bid(arguments: argparse.Namespace) -> int:
    """Tell the daemon, and print old and new."""

    def fetch(ask: Ask) -> Any:
        return ask("bid", **{name: getattr(arguments, name) for name in ("vm", *RESOURCES)})

    return show_view(
        "bid",
        arguments,
        TABLE,
        fetch,
        rows=lambda answer: answer["resources"],
        text=_text,
        whole=True,
    )


def _text(answer: Any, cells: int | None) -> Sequence[str]:
    rows = rows_of(answer["resources"])
    who = f"VM {answer['id']} ({answer['name']})" if answer["name"] else f"VM {answer['id']}"
    columns = TABLE.default()
    if answer["changed"]:
        head = f"{who} bids from the next period on:"
    else:
        head = f"{who} bids:"
        columns = [column for column in columns if not column.name.startswith("NEW")]
    return [head, *to_text(columns, rows, cells)]


BID = Verb(
    "bid",
    summary="change or show what a VM bids",
    description="""\
`merkatd bid`: change what a VM bids, or show it; the newest word wins, whoever says it.

The bid holds from the next period on. The shares and costs beside it are what it would get
and cost now, where it is, while all others stay as they are.
""",
    add_arguments=add_bid_arguments,
    run=run_bid,
)
