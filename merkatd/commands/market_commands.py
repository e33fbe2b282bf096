"""Commands about prices and bids: `price`, `bid`, `quote`."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.base.quantities import credits_text
from merkatd.commands.ask_daemon import Ask, add_view, show_view
from merkatd.commands.order_command import order_note
from merkatd.commands.screens.hourly_rows import (
    hourly_rows,
    interval_of,
    past_hourly_rows,
    with_hourly_prices,
)
from merkatd.commands.screens.price_tables import HISTORY, NOW
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import wrapped

RESOURCES = ("cpu", "memory", "network", "disk")
BID_TABLE = ScreenTable(
    "BID",
    (
        Column("RESOURCE", "resource", ColumnFormat.TEXT, "cpu, memory ..."),
        Column("OLD", "old", ColumnFormat.CREDITS, "the old bid, in credits a period"),
        Column("NEW", "new", ColumnFormat.CREDITS, "the new bid, in credits a period"),
        Column(
            "SHARE", "share", ColumnFormat.NUMBER, "the share at the old bid, in % of a core or MiB"
        ),
        Column("NEW_SHARE", "new_share", ColumnFormat.NUMBER, "the share at the new bid"),
        Column(
            "COST", "cost", ColumnFormat.CREDITS, "the cost of a period at the old bid", kept=True
        ),
        Column(
            "NEW_COST",
            "new_cost",
            ColumnFormat.CREDITS,
            "the cost of a period at the new bid",
            kept=True,
        ),
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
        help="bid X for network, if sold",
    )
    parser.add_argument(
        "--disk", metavar="X", type=command_parser.bid, help="bid X for disks, if sold"
    )
    add_view(parser, {"bid": BID_TABLE}, follow=False)


def run_bid(arguments: argparse.Namespace) -> int:
    """Change or show a VM's bid, with shares and costs."""

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
        head = f"{who} bids, from the next period on:"
    else:
        head = f"{who} bids:"
        columns = [column for column in columns if not column.name.startswith("NEW")]
    note = order_note(answer["id"], answer["limit_order"])
    return [head, *to_text(columns, rows, cells), *(wrapped(note, cells) if note else ())]


BID = Verb(
    "bid",
    summary="change or show a VM's bid",
    description="""\
`merkatd bid`: change or show a VM's bid. The most recent bid applies, whatever its source.

A bid applies from the next period on. The shares and costs are those of the VM on its present host
now, if all other bids stay unchanged.
""",
    add_arguments=add_bid_arguments,
    run=run_bid,
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
        "--market",
        metavar="MARKET",
        type=command_parser.reference,
        help="only prices of this market",
    )
    add_view(parser, {"now": NOW, "history": HISTORY})


def run_price(arguments: argparse.Namespace) -> int:
    """Show current prices, or those of past periods."""
    if arguments.history is not None:
        return show_view(
            "price",
            arguments,
            HISTORY,
            lambda ask: past_hourly_rows(
                ask("price_history", periods=arguments.history, market=arguments.market),
                interval_of(ask),
            ),
        )
    return show_view(
        "price",
        arguments,
        NOW,
        lambda ask: hourly_rows(ask("price", market=arguments.market), interval_of(ask)),
    )


PRICE = Verb(
    "price",
    summary="show the prices, now or over time",
    description="""\
`merkatd price`: show the price of each resource, its trend, and past prices.

Prices are in credits per core-hour and per GiB-hour; where network and disks are sold, also per
Mbit/s and per MiB/s for an hour. Bids and costs of VMs are in credits a period.
""",
    add_arguments=add_price_arguments,
    run=run_price,
)


QUOTE_TABLE = ScreenTable(
    "QUOTE",
    (
        Column("RESOURCE", "resource", ColumnFormat.TEXT, "cpu, memory ..."),
        Column(
            "WANTED", "wanted", ColumnFormat.NUMBER, "the share asked for, in % of a core or MiB"
        ),
        Column(
            "BID",
            "bid",
            ColumnFormat.CREDITS,
            "the bid, in credits a period; - if no bid gets the share asked for",
        ),
        Column(
            "SHARE",
            "share",
            ColumnFormat.NUMBER,
            "the share at that bid; if no bid suffices, the largest possible share",
        ),
        Column("MOST", "most", ColumnFormat.NUMBER, "the most that the VM can use", default=False),
        Column(
            "PRICE",
            "hourly_price",
            ColumnFormat.CREDITS,
            "the price once the bid applies, in credits per core-hour or GiB-hour",
            kept=True,
        ),
        Column("COST", "cost", ColumnFormat.CREDITS, "the cost of a period", kept=True),
    ),
)


def add_quote_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `quote`."""
    parser.add_argument(
        "vm",
        metavar="VM",
        nargs="?",
        type=command_parser.reference,
        help="the VM, by id or name; without it: a new VM",
    )
    parser.add_argument(
        "--cpu", metavar="X", type=command_parser.bid, help="quote a bid of X for CPU"
    )
    parser.add_argument(
        "--memory", metavar="Y", type=command_parser.bid, help="quote a bid of Y for memory"
    )
    parser.add_argument(
        "--want-cpu",
        metavar="UNITS",
        type=command_parser.bid,
        help="find the bid that gets UNITS percent of a core",
    )
    parser.add_argument(
        "--want-memory",
        metavar="MIB",
        type=command_parser.bid,
        help="find the bid that gets MIB of memory",
    )
    for good, unit in (("network", "Mbit/s"), ("disk", "MiB/s")):
        parser.add_argument(
            f"--{good}",
            metavar="X",
            type=command_parser.bid,
            help=f"quote a bid of X for {good}, if sold",
        )
        parser.add_argument(
            f"--want-{good}",
            metavar=unit.upper(),
            type=command_parser.bid,
            help=f"find the bid that gets so many {unit}, if sold",
        )
    new = parser.add_argument_group("a new VM")
    new.add_argument(
        "--market", metavar="MARKET", type=command_parser.reference, help="the new VM's market"
    )
    new.add_argument(
        "--most-cpu",
        metavar="UNITS",
        type=command_parser.bid,
        help="the most CPU that the new VM can use, in percent of a core",
    )
    new.add_argument(
        "--most-memory",
        metavar="MIB",
        type=command_parser.bid,
        help="the most memory that the new VM can use",
    )
    new.add_argument(
        "--least-memory",
        metavar="MIB",
        type=command_parser.bid,
        help="the memory that the new VM needs at least",
    )
    add_view(parser, {"quote": QUOTE_TABLE}, follow=False)


def run_quote(arguments: argparse.Namespace) -> int:
    """Show the share and cost of a bid, or the bid for a share."""
    wishes = ("vm", *RESOURCES, *(f"want_{name}" for name in RESOURCES))
    size = ("market", "most_cpu", "most_memory", "least_memory")

    def fetch(ask: Ask) -> Any:
        answer = ask("quote", **{name: getattr(arguments, name) for name in (*wishes, *size)})
        return {**answer, "interval_s": interval_of(ask)}

    return show_view(
        "quote",
        arguments,
        QUOTE_TABLE,
        fetch,
        rows=with_hourly_prices,
        text=_quote_text,
        whole=True,
    )


def _quote_text(answer: Any, cells: int | None) -> Sequence[str]:
    rows = with_hourly_prices(answer)
    columns = QUOTE_TABLE.default()
    if all(row["wanted"] is None for row in rows):
        columns = [column for column in columns if column.name != "WANTED"]
    where = "as if its market were one host" if answer["host"] is None else f"on {answer['host']}"
    cost = answer["cost"]
    pays = "no bid gets that share" if cost is None else f"{credits_text(cost)} credits a period"
    if cost is not None and answer.get("rate") is not None:
        pays = f"at most {pays}, {credits_text(answer['rate'])} for each core that it uses"
    return [f"{_who(answer)} {where}: {pays}", *to_text(columns, rows, cells)]


def _who(answer: Any) -> str:
    if answer.get("id") is None:
        return "A new VM"
    return f"VM {answer['id']} ({answer['name']})" if answer["name"] else f"VM {answer['id']}"


QUOTE = Verb(
    "quote",
    summary="show what a bid would get, or the bid that a share would take",
    description="""\
`merkatd quote`: show the share and cost that a bid would get now, or the bid for a given share.

Without VM, the quote is for a new VM on the least loaded host that has room for it; the VM's
requirements and groups are not considered. The quote assumes that all other bids stay unchanged.
The command changes nothing.
""",
    add_arguments=add_quote_arguments,
    run=run_quote,
)
