"""`merkatd quote`: what a bid would get now and cost, or which bid it would take to get so much."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.commands import words
from merkatd.commands.asking import Ask
from merkatd.commands.bid import RESOURCES
from merkatd.commands.output import rows_of
from merkatd.commands.table import Column, Kind, Table, to_text
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

TABLE = Table(
    "QUOTE",
    (
        Column("RESOURCE", "resource", Kind.TEXT, "cpu, memory ..."),
        Column("WANTED", "wanted", Kind.NUMBER, "what was asked for, in % of a core or MiB"),
        Column("BID", "bid", Kind.CREDITS, "credits a period; - where no bid gets what is wanted"),
        Column("SHARE", "share", Kind.NUMBER, "what it gets; where no bid does, the most there is"),
        Column("MOST", "most", Kind.NUMBER, "all that the VM can use", default=False),
        Column("PRICE", "price", Kind.PRICE, "of a unit, once the bid counts"),
        Column("COST", "cost", Kind.CREDITS, "what a period costs"),
    ),
)


def add_quote_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "vm",
        metavar="VM",
        nargs="?",
        type=words.reference,
        help="the VM, by id or name; one that there is not yet unless given",
    )
    parser.add_argument("--cpu", metavar="X", type=words.bid, help="for a bid of X for CPU")
    parser.add_argument("--memory", metavar="Y", type=words.bid, help="for a bid of Y for memory")
    parser.add_argument(
        "--want-cpu", metavar="UNITS", type=words.bid, help="to get UNITS percent of a core"
    )
    parser.add_argument("--want-memory", metavar="MIB", type=words.bid, help="to get MIB of memory")
    for good, unit in (("network", "Mbit/s"), ("disk", "MiB/s")):
        parser.add_argument(
            f"--{good}", metavar="X", type=words.bid, help=f"for a bid of X for {good}, if sold"
        )
        parser.add_argument(
            f"--want-{good}",
            metavar=unit.upper(),
            type=words.bid,
            help=f"to get so many {unit}, if sold",
        )
    new = parser.add_argument_group("a VM that there is not yet")
    new.add_argument("--market", metavar="NAME", type=words.reference, help="in this market")
    new.add_argument(
        "--most-cpu", metavar="UNITS", type=words.bid, help="that can use UNITS percent of a core"
    )
    new.add_argument(
        "--most-memory", metavar="MIB", type=words.bid, help="that can use MIB of memory"
    )
    new.add_argument(
        "--least-memory",
        metavar="MIB",
        type=words.bid,
        help="that needs MIB of memory to live",
    )
    add_view(parser, {"quote": TABLE}, follow=False)


def run_quote(arguments: argparse.Namespace) -> int:
    """Ask, and print."""
    said = ("vm", *RESOURCES, *(f"want_{name}" for name in RESOURCES))
    size = ("market", "most_cpu", "most_memory", "least_memory")

    def fetch(ask: Ask) -> Any:
        return ask("quote", **{name: getattr(arguments, name) for name in (*said, *size)})

    return show_view(
        "quote",
        arguments,
        TABLE,
        fetch,
        rows=lambda answer: answer["resources"],
        text=_text,
        whole=True,
    )


def _text(answer: Any, cells: int | None) -> Sequence[str]:
    rows = rows_of(answer["resources"])
    columns = TABLE.default()
    if all(row["wanted"] is None for row in rows):
        columns = [column for column in columns if column.name != "WANTED"]
    where = "as if its market were one host" if answer["host"] is None else f"on {answer['host']}"
    cost = answer["cost"]
    pays = "what is wanted is had for no bid" if cost is None else f"{cost:.4g} credits a period"
    if cost is not None and answer.get("rate") is not None:
        pays = f"at most {pays}, {answer['rate']:.4g} for each core that it uses"
    return [f"{_who(answer)} {where}: {pays}", *to_text(columns, rows, cells)]


def _who(answer: Any) -> str:
    if answer.get("id") is None:
        return "A new VM"
    return f"VM {answer['id']} ({answer['name']})" if answer["name"] else f"VM {answer['id']}"


QUOTE = Verb(
    "quote",
    summary="say what a bid would get, or what it would take",
    description="""\
`merkatd quote`: what a bid would get now and cost, or which bid it would take to get so much.

Without VM it is for one that there is not yet: on the host with the least load that has room
for it, apart from what its requirements and groups say. Nothing is changed, and all others are
taken to stay as they are.
""",
    add_arguments=add_quote_arguments,
    run=run_quote,
)
