"""`merkatd price`: what a unit of each resource costs now, how it went, and earlier prices."""

import argparse

from merkatd.commands import words
from merkatd.commands.table import Column, Kind, Table
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

NOW = Table(
    "PRICE",
    (
        Column("MARKET", "market", Kind.TEXT, "the market", least=6),
        Column("RESOURCE", "resource", Kind.TEXT, "cpu: a percent of a core; memory: a MiB"),
        Column("PRICE", "price", Kind.PRICE, "credits per unit and period; - where none clears"),
        Column("BEFORE", "before", Kind.PRICE, "a period earlier", optional=True),
        Column("LEAST", "least", Kind.PRICE, "of the last 60 periods", optional=True),
        Column("MOST", "most", Kind.PRICE, "of the last 60 periods", optional=True),
        Column("TREND", "trend", Kind.TREND, "of the last 60 periods, oldest first", least=10),
        Column("PERIOD", "period", Kind.WHOLE, "the number of the period", default=False),
        Column("TIME", "at_s", Kind.TIME, "when it was announced", default=False),
    ),
)

HISTORY = Table(
    "PRICE",
    (
        Column("PERIOD", "period", Kind.WHOLE, "the number of the period"),
        Column("TIME", "at_s", Kind.TIME, "when it began", optional=True),
        Column("MARKET", "market", Kind.TEXT, "the market", least=6),
        Column("CPU", "cpu", Kind.PRICE, "credits per percent of a core and period"),
        Column("MEMORY", "memory", Kind.PRICE, "credits per MiB and period"),
        Column("NETWORK", "network", Kind.PRICE, "credits per Mbit/s and period", sometimes=True),
        Column("DISK", "disk", Kind.PRICE, "credits per MiB/s and period", sometimes=True),
        Column(
            "SUPPLY",
            "supply",
            Kind.TEXT,
            "how the supply of credits was changed then, and why",
            least=20,
            sometimes=True,
        ),
    ),
)


def add_price_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "--history",
        metavar="N",
        type=words.count,
        help="list the prices of the newest N periods, oldest first",
    )
    parser.add_argument(
        "--market", metavar="NAME", type=words.reference, help="of this market alone"
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
