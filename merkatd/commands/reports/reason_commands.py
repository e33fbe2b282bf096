"""The commands `explain price`, `explain application` and `explain refusal`."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.base.hourly_prices import hourly_price, price_text
from merkatd.base.quantities import credits_text
from merkatd.commands.ask_daemon import Ask, show_view
from merkatd.commands.screens.hourly_rows import interval_of
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, to_text
from merkatd.commands.terminal.command_parser import NotDoneError
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import wrapped
from merkatd.commands.terminal.table_columns import shortened
from merkatd.commands.texts.empty_texts import NO_PRICES, NO_REFUSALS

PRICE_REASONS = ScreenTable(
    "PRICE",
    (
        Column("MARKET", "market", ColumnFormat.TEXT, "the market", least=7),
        Column("RESOURCE", "resource", ColumnFormat.TEXT, "cpu, memory ..."),
        Column(
            "PRICE",
            "hourly_price",
            ColumnFormat.CREDITS,
            "the price, in credits per core-hour or GiB-hour",
            kept=True,
        ),
        Column(
            "LEAST",
            "hourly_reserve",
            ColumnFormat.CREDITS,
            "the reserve price, below which nothing is sold",
        ),
        Column("CAPACITY", "capacity", ColumnFormat.NUMBER, "what the hosts have together"),
        Column("FLOORS", "floors", ColumnFormat.NUMBER, "the floors of the VMs with a host"),
        Column("WANTED", "wanted", ColumnFormat.NUMBER, "what the VMs with a host can use"),
        Column("BIDS", "bids", ColumnFormat.CREDITS, "their bids, in credits a period"),
        Column("BIDDERS", "bidders", ColumnFormat.WHOLE, "the number of VMs that bid"),
        Column("WAITING", "waiting", ColumnFormat.WHOLE, "VMs that wait for a host", default=False),
        Column(
            "WITH_LESS",
            "hourly_with_less",
            ColumnFormat.CREDITS,
            "the price if each bid were a tenth lower",
        ),
        Column("RULE", "rule", ColumnFormat.TEXT, "the market's price rule", default=False),
        Column("STRATEGY", "strategy", ColumnFormat.TEXT, "the market's strategy", default=False),
        Column("WHY", "why", ColumnFormat.TEXT, "the reason for the price", default=False),
    ),
    NO_PRICES,
)
APPLICATION = ScreenTable(
    "APPLICATION",
    (
        Column("ID", "application", ColumnFormat.WHOLE, "the application's id", kept=True),
        Column("NAME", "name", ColumnFormat.TEXT, "its name", least=6),
        Column("OWNER", "owner_name", ColumnFormat.TEXT, "its owner", default=False),
        Column("MARKET", "market", ColumnFormat.TEXT, "its market", default=False),
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the period of the explanation"),
        Column("VMS", "vms", ColumnFormat.WHOLE, "the number of its VMs"),
        Column("UTILITY", "utility", ColumnFormat.CREDITS, "its utility; 0 is just its goal"),
        Column("SENTENCE", "sentence", ColumnFormat.TEXT, "its standing in words", default=False),
    ),
)
REFUSALS = ScreenTable(
    "REFUSED",
    (
        Column("TIME", "at_s", ColumnFormat.TIME, "the time of the request"),
        Column("USER", "user", ColumnFormat.TEXT, "the user", least=6),
        Column("REQUEST", "request", ColumnFormat.TEXT, "the request", least=10),
        Column("REASON", "reason", ColumnFormat.TEXT, "the reason", least=40, kept=True),
    ),
    NO_REFUSALS,
)


def explain_price(arguments: argparse.Namespace, resource: str | None) -> int:
    """Show how prices came about."""

    def fetch(ask: Ask) -> Any:
        interval_s = interval_of(ask)
        rows = rows_of(ask("explain_price", resource=resource))
        return {"prices": [_hourly(row, interval_s) for row in rows], "interval_s": interval_s}

    return show_view(
        "explain",
        arguments,
        PRICE_REASONS,
        fetch,
        rows=lambda answer: answer["prices"],
        text=_price_lines,
        whole=True,
    )


def _hourly(row: Any, interval_s: float) -> Any:
    names = {
        "hourly_price": "price",
        "hourly_reserve": "reserve",
        "hourly_with_less": "price_with_less",
    }
    return {
        **row,
        **{
            name: hourly_price(row[key], row["resource"], interval_s) for name, key in names.items()
        },
    }


def _price_lines(answer: Any, cells: int | None) -> Sequence[str]:
    lines = [*to_text(PRICE_REASONS.default(), answer["prices"], cells), ""]
    for row in answer["prices"]:
        price = price_text(row["price"], row["resource"], answer["interval_s"])
        less = price_text(row["price_with_less"], row["resource"], answer["interval_s"])
        said = f"{row['market']}, {row['resource']}: {price}, because {row['why']}."
        said += f" {_bidders(row)} With bids a tenth lower it would be {less}." * bool(
            row["bidders"]
        )
        said += f" {_vms(row['waiting'])} for a host." * bool(row["waiting"])
        lines += wrapped(said, cells, "", "  ")
    return lines


def _bidders(row: Any) -> str:
    who = "One VM bids" if row["bidders"] == 1 else f"{row['bidders']} VMs bid"
    return f"{who} {credits_text(row['bids'])} credits a period for it."


def _vms(waiting: int) -> str:
    return "One more VM waits" if waiting == 1 else f"{waiting} more VMs wait"


def explain_application(arguments: argparse.Namespace, word: str) -> int:
    """Show where an application stands; `word` is its id or name."""

    def fetch(ask: Ask) -> Any:
        return ask("explain_application", application=_application_id(ask, word))

    return show_view(
        "explain",
        arguments,
        APPLICATION,
        fetch,
        rows=lambda answer: [answer],
        text=_application_lines,
        whole=True,
    )


def _application_id(ask: Ask, word: str) -> int:
    """Return the id of the application with this id or name. Raise NotDoneError."""
    listed = [row for row in rows_of(ask("applications")) if row["application"] is not None]
    named = [row["application"] for row in listed if row["name"] == word]
    numbered = [row["application"] for row in listed if str(row["application"]) == word]
    found = named or numbered
    if not found:
        raise NotDoneError(f"there is no application {shortened(word)} with VMs")
    if len(found) > 1:
        raise NotDoneError(f"several applications are named {shortened(word)}: give an id")
    return int(found[0])


def _application_lines(answer: Any, cells: int | None) -> Sequence[str]:
    lines = wrapped(answer["sentence"], cells)
    if answer["payers"]:
        lines += ["", *wrapped(f"Would have less: {', '.join(answer['payers'])}", cells)]
    return lines


def explain_refusal(arguments: argparse.Namespace) -> int:
    """Show the newest refused requests, with the reasons."""
    return show_view("explain", arguments, REFUSALS, lambda ask: ask("explain_refusal"))
