"""The command `capacity`: what fits now, of a size given, and at which price."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from merkatd.base.quantities import credits_text
from merkatd.commands.ask_daemon import add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import wrapped
from merkatd.commands.terminal.table_columns import column_text, figure

_UNITS = {"cpu": "% of a core", "memory": "MiB", "network": "Mbit/s", "disk": "MiB/s"}


def _of_resource(name: str, unit: str) -> tuple[Column, ...]:
    sometimes = name in {"network", "disk"}
    return (
        Column(
            f"FREE_{name.upper()}",
            f"free_{name}",
            ColumnFormat.NUMBER,
            f"{unit} that no VM gets now",
            optional=True,
            sometimes=sometimes,
        ),
        Column(
            f"BID_{name.upper()}",
            f"bid_{name}",
            ColumnFormat.CREDITS,
            f"the least bid for {name} that gets a VM its size there; - if no bid does",
            sometimes=sometimes,
        ),
    )


CAPACITY_TABLE = ScreenTable(
    "CAPACITY",
    (
        Column("HOST", "host", ColumnFormat.TEXT, "the host", least=6),
        Column("MARKET", "market", ColumnFormat.TEXT, "its market", least=6, optional=True),
        Column("UNUSED", "unused", ColumnFormat.WHOLE, "VMs that fit into what no VM gets now"),
        Column("FITS", "fits", ColumnFormat.WHOLE, "VMs that fit beside the floors of all VMs"),
        *(column for name, unit in _UNITS.items() for column in _of_resource(name, unit)),
        Column(
            "COST",
            "cost",
            ColumnFormat.CREDITS,
            "the credits a period that the next VM of this size costs there",
            kept=True,
        ),
    ),
)


def add_capacity_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `capacity`."""
    for name, unit in _UNITS.items():
        sold = "" if name in {"cpu", "memory"} else ", if sold"
        parser.add_argument(
            f"--{name}",
            metavar="UNITS" if name == "cpu" else unit.upper(),
            type=command_parser.bid,
            help=f"the {name} of a VM, in {unit}{sold}".replace("%", "%%"),
        )
    parser.add_argument(
        "--market", metavar="MARKET", type=command_parser.reference, help="only this market"
    )
    add_view(parser, {"capacity": CAPACITY_TABLE})


def run_capacity(arguments: argparse.Namespace) -> int:
    """Show how many VMs of a size fit on each host."""
    return show_view(
        "capacity",
        arguments,
        CAPACITY_TABLE,
        lambda ask: ask(
            "capacity",
            market=arguments.market,
            **{name: getattr(arguments, name) for name in _UNITS},
        ),
        rows=lambda answer: [host for market in answer["markets"] for host in market["hosts"]],
        text=_capacity_text,
        whole=True,
    )


def _capacity_text(answer: Any, cells: int | None) -> Sequence[str]:
    size = " and ".join(
        f"{figure(amount)} {_UNITS[name]}{' of memory' if name == 'memory' else ''}"
        for name, amount in answer["size"].items()
    )
    lines = [f"VMs of {size}:"]
    for market in rows_of(answer["markets"]):
        for sentence in _sentences(market):
            lines += wrapped(sentence, cells, "", "  ")
    rows = [host for market in answer["markets"] for host in rows_of(market["hosts"])]
    if not rows:
        return lines
    return [*lines, "", *to_text(column_text(CAPACITY_TABLE.default(), rows), rows, cells)]


def _sentences(market: Mapping[str, Any]) -> Iterator[str]:
    name, unused, fits = market["market"], int(market["unused"]), int(market["fits"])
    text = f"Market {name}: {unused:,} fit into what no VM gets now, and {fits:,} beside all floors"
    priced = [host for host in rows_of(market["hosts"]) if host["cost"] is not None]
    if priced:
        cost = credits_text(priced[0]["cost"])
        yield f"{text}; the next one costs {cost} credits a period on {priced[0]['host']}."
    else:
        yield f"{text}; no bid gets one its size on any host."
    closed = int(market["closed"])
    if closed:
        yield f"{closed} hosts of the market take no new VMs."


CAPACITY = Verb(
    "capacity",
    summary="show how many VMs of a size fit now, where, and at which price",
    description="""\
`merkatd capacity`: show how many VMs of a size fit on each host now, and what the next one costs.

UNUSED counts VMs that take nothing from others: they fit into what no VM gets now. FITS counts VMs
whose floors are this size: running VMs shrink towards their own floors for them. COST is for one
more VM without a floor whose bid gets it this size there, with all other bids unchanged; then it
can use no more. Requirements and groups of VMs are not considered. Without options, the size is a
core and 1,024 MiB.
""",
    add_arguments=add_capacity_arguments,
    run=run_capacity,
)
