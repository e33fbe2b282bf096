"""`price`, `bid`, `quote`."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.commands.ask_daemon import Ask, add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of

RESOURCES = ("cpu", "memory", "network", "disk")
BID_TABLE = ScreenTable(
    "BID",
    (
        Column("RESOURCE", "resource", ColumnFormat.TEXT, "cpu, memory ..."),
        Column("OLD", "old", ColumnFormat.CREDITS, "the bid until now, in credits a period"),
        Column("NEW", "new", ColumnFormat.CREDITS, "the bid from now on"),
        Column(
            "SHARE", "share", ColumnFormat.NUMBER, "what the old one gets, in % of a core or MiB"
        ),
        Column("NEW_SHARE", "new_share", ColumnFormat.NUMBER, "what the new one would get"),
        Column("COST", "cost", ColumnFormat.CREDITS, "what a period costs with the old one"),
        Column("NEW_COST", "new_cost", ColumnFormat.CREDITS, "and would cost with the new one"),
    ),
)


def add_bid_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `bid`."""
    parser.add_argument(
        "vm", metavar="VM", type=command_parser.reference, help="the VM, by id or name"
    )
    parser.add_argument(
        "--cpu", metavar="X", type=command_parser.bid, help="bid X credits a period for CPU"
    )
    parser.add_argument(
        "--memory", metavar="Y", type=command_parser.bid, help="bid Y credits a period for memory"
    )
    parser.add_argument(
        "--network",
        metavar="X",
        type=command_parser.bid,
        help="bid X for network, where that is sold",
    )
    parser.add_argument(
        "--disk", metavar="X", type=command_parser.bid, help="bid X for disks, where that is sold"
    )
    add_view(parser, {"bid": BID_TABLE}, follow=False)


def run_bid(arguments: argparse.Namespace) -> int:
    """Tell the daemon, and print old and new."""

    def fetch(ask: Ask) -> Any:
        return ask("bid", **{name: getattr(arguments, name) for name in ("vm", *RESOURCES)})

    return show_view(
        "bid",
        arguments,
        BID_TABLE,
        fetch,
        rows=lambda answer: answer["resources"],
        text=_bid_text,
        whole=True,
    )


def _bid_text(answer: Any, cells: int | None) -> Sequence[str]:
    rows = rows_of(answer["resources"])
    who = f"VM {answer['id']} ({answer['name']})" if answer["name"] else f"VM {answer['id']}"
    columns = BID_TABLE.default()
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


NOW = ScreenTable(
    "PRICE",
    (
        Column("MARKET", "market", ColumnFormat.TEXT, "the market", least=6),
        Column(
            "RESOURCE", "resource", ColumnFormat.TEXT, "cpu: a percent of a core; memory: a MiB"
        ),
        Column(
            "PRICE", "price", ColumnFormat.PRICE, "credits per unit and period; - where none clears"
        ),
        Column("BEFORE", "before", ColumnFormat.PRICE, "a period earlier", optional=True),
        Column("LEAST", "least", ColumnFormat.PRICE, "of the last 60 periods", optional=True),
        Column("MOST", "most", ColumnFormat.PRICE, "of the last 60 periods", optional=True),
        Column(
            "TREND", "trend", ColumnFormat.TREND, "of the last 60 periods, oldest first", least=10
        ),
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the number of the period", default=False),
        Column("TIME", "at_s", ColumnFormat.TIME, "when it was announced", default=False),
    ),
)
HISTORY = ScreenTable(
    "PRICE",
    (
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the number of the period"),
        Column("TIME", "at_s", ColumnFormat.TIME, "when it began", optional=True),
        Column("MARKET", "market", ColumnFormat.TEXT, "the market", least=6),
        Column("CPU", "cpu", ColumnFormat.PRICE, "credits per percent of a core and period"),
        Column("MEMORY", "memory", ColumnFormat.PRICE, "credits per MiB and period"),
        Column(
            "NETWORK",
            "network",
            ColumnFormat.PRICE,
            "credits per Mbit/s and period",
            sometimes=True,
        ),
        Column("DISK", "disk", ColumnFormat.PRICE, "credits per MiB/s and period", sometimes=True),
        Column(
            "SUPPLY",
            "supply",
            ColumnFormat.TEXT,
            "how the supply of credits was changed then, and why",
            least=20,
            sometimes=True,
        ),
    ),
)


def add_price_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `price`."""
    parser.add_argument(
        "--history",
        metavar="N",
        type=command_parser.count,
        help="list the prices of the newest N periods, oldest first",
    )
    parser.add_argument(
        "--market", metavar="NAME", type=command_parser.reference, help="of this market alone"
    )
    add_view(parser, {"now": NOW, "history": HISTORY})


def run_price(arguments: argparse.Namespace) -> int:
    """Ask, and print the rows."""
    if arguments.history is not None:
        return show_view(
            "price",
            arguments,
            HISTORY,
            lambda ask: ask("price_history", periods=arguments.history, market=arguments.market),
        )
    return show_view("price", arguments, NOW, lambda ask: ask("price", market=arguments.market))


PRICE = Verb(
    "price",
    summary="show the prices, now or over time",
    description="""\
`merkatd price`: what a unit of each resource costs now, how it went, and earlier prices.

A unit is a hundredth of a core, or a MiB of memory, for one period; a Mbit/s of network or a MiB/s
of disks, where these are sold.
""",
    add_arguments=add_price_arguments,
    run=run_price,
)


QUOTE_TABLE = ScreenTable(
    "QUOTE",
    (
        Column("RESOURCE", "resource", ColumnFormat.TEXT, "cpu, memory ..."),
        Column(
            "WANTED", "wanted", ColumnFormat.NUMBER, "what was asked for, in % of a core or MiB"
        ),
        Column(
            "BID",
            "bid",
            ColumnFormat.CREDITS,
            "credits a period; - where no bid gets what is wanted",
        ),
        Column(
            "SHARE",
            "share",
            ColumnFormat.NUMBER,
            "what it gets; where no bid does, the most there is",
        ),
        Column("MOST", "most", ColumnFormat.NUMBER, "all that the VM can use", default=False),
        Column("PRICE", "price", ColumnFormat.PRICE, "of a unit, once the bid counts"),
        Column("COST", "cost", ColumnFormat.CREDITS, "what a period costs"),
    ),
)


def add_quote_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `quote`."""
    parser.add_argument(
        "vm",
        metavar="VM",
        nargs="?",
        type=command_parser.reference,
        help="the VM, by id or name; one that there is not yet unless given",
    )
    parser.add_argument(
        "--cpu", metavar="X", type=command_parser.bid, help="for a bid of X for CPU"
    )
    parser.add_argument(
        "--memory", metavar="Y", type=command_parser.bid, help="for a bid of Y for memory"
    )
    parser.add_argument(
        "--want-cpu",
        metavar="UNITS",
        type=command_parser.bid,
        help="to get UNITS percent of a core",
    )
    parser.add_argument(
        "--want-memory", metavar="MIB", type=command_parser.bid, help="to get MIB of memory"
    )
    for good, unit in (("network", "Mbit/s"), ("disk", "MiB/s")):
        parser.add_argument(
            f"--{good}",
            metavar="X",
            type=command_parser.bid,
            help=f"for a bid of X for {good}, if sold",
        )
        parser.add_argument(
            f"--want-{good}",
            metavar=unit.upper(),
            type=command_parser.bid,
            help=f"to get so many {unit}, if sold",
        )
    new = parser.add_argument_group("a VM that there is not yet")
    new.add_argument(
        "--market", metavar="NAME", type=command_parser.reference, help="in this market"
    )
    new.add_argument(
        "--most-cpu",
        metavar="UNITS",
        type=command_parser.bid,
        help="that can use UNITS percent of a core",
    )
    new.add_argument(
        "--most-memory", metavar="MIB", type=command_parser.bid, help="that can use MIB of memory"
    )
    new.add_argument(
        "--least-memory",
        metavar="MIB",
        type=command_parser.bid,
        help="that needs MIB of memory to live",
    )
    add_view(parser, {"quote": QUOTE_TABLE}, follow=False)


def run_quote(arguments: argparse.Namespace) -> int:
    """Ask, and print."""
    said = ("vm", *RESOURCES, *(f"want_{name}" for name in RESOURCES))
    size = ("market", "most_cpu", "most_memory", "least_memory")

    def fetch(ask: Ask) -> Any:
        return ask("quote", **{name: getattr(arguments, name) for name in (*said, *size)})

    return show_view(
        "quote",
        arguments,
        QUOTE_TABLE,
        fetch,
        rows=lambda answer: answer["resources"],
        text=_quote_text,
        whole=True,
    )


def _quote_text(answer: Any, cells: int | None) -> Sequence[str]:
    rows = rows_of(answer["resources"])
    columns = QUOTE_TABLE.default()
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
