"""The command `strategy`: what strategies declare, and their settings in this cloud."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.commands.ask_daemon import Ask, add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, to_text
from merkatd.commands.terminal.command_parser import NotDoneError
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import ConflictingArgumentsError, rows_of
from merkatd.commands.terminal.screen_text import wrapped
from merkatd.placement import STRATEGIES
from merkatd.placement.contract import IN_WORDS

LIST = ScreenTable(
    "STRATEGY",
    (
        Column("NAME", "name", ColumnFormat.TEXT, "the strategy's name"),
        Column("MARKETS", "markets", ColumnFormat.LIST, "the markets that run it"),
        Column(
            "ALLOCATES",
            "allocates",
            ColumnFormat.TEXT,
            "shares: bids divide the hosts; own: the strategy states what each VM gets",
        ),
        Column(
            "CHARGES",
            "charges",
            ColumnFormat.TEXT,
            "what VMs pay for: shares, use, or nothing (none)",
        ),
        Column(
            "LACKS",
            "lacks",
            ColumnFormat.LIST,
            "the parts of the snapshot that it needs and a market that runs it does not fill; any"
            " market if none runs it",
        ),
        Column("SUMMARY", "summary", ColumnFormat.TEXT, "what it does", least=30),
    ),
)
SETTINGS = ScreenTable(
    "SETTING",
    (
        Column("KEY", "key", ColumnFormat.TEXT, "the key in the configuration"),
        Column("MARKET", "market", ColumnFormat.TEXT, "a market that runs the strategy"),
        Column("VALUE", "value", ColumnFormat.TEXT, "the present value there"),
        Column("DEFAULT", "default", ColumnFormat.TEXT, "the default"),
        Column("LEAST", "least", ColumnFormat.TEXT, "the least value"),
        Column("MOST", "most", ColumnFormat.TEXT, "the greatest value"),
        Column("UNIT", "unit", ColumnFormat.TEXT, "the unit; empty for a plain number or a choice"),
        Column("TUNABLE", "tunable", ColumnFormat.TEXT, "whether a tuner may change it"),
        Column("MEANING", "meaning", ColumnFormat.TEXT, "the meaning", least=30),
    ),
)


def add_strategy_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `strategy`."""
    parser.add_argument(
        "action", metavar="ACTION", choices=("list", "show"), help="list, or show NAME"
    )
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        choices=tuple(STRATEGIES),
        help=f"with show: the strategy, one of {', '.join(STRATEGIES)}",
    )
    add_view(parser, {"list": LIST, "show": SETTINGS})


def run_strategy(arguments: argparse.Namespace) -> int:
    """List the strategies, or show one."""
    if arguments.action == "list":
        return show_view("strategy", arguments, LIST, lambda ask: _listed(ask, arguments.name))
    return show_view(
        "strategy",
        arguments,
        SETTINGS,
        lambda ask: _shown(ask, arguments.name),
        rows=lambda answer: answer["settings"],
        text=_text,
        whole=True,
    )


def _listed(ask: Ask, name: str | None) -> Any:
    if name is not None:
        raise ConflictingArgumentsError("list takes no NAME; write `merkatd strategy show NAME`")
    return [{**row, "lacks": _lacking(row)} for row in rows_of(ask("strategies"))]


def _lacking(row: Mapping[str, Any]) -> list[str]:
    return [need["name"] for need in row["needs"] if need["filled"] is False]


def _shown(ask: Ask, name: str | None) -> Any:
    if name is None:
        raise ConflictingArgumentsError("show needs the NAME of a strategy")
    found = [row for row in rows_of(ask("strategies")) if row["name"] == name]
    if not found:
        raise NotDoneError(f"the daemon has no strategy {name}; it may have another version")
    (strategy,) = found
    settings = [
        {
            **setting,
            "market": market,
            "value": value,
            "tunable": "yes" if setting["tunable"] else "no",
        }
        for setting in strategy["settings"]
        for market, value in (setting["values"] or {None: None}).items()
    ]
    return {**strategy, "settings": settings}


def _text(strategy: Any, cells: int | None) -> Sequence[str]:
    markets = ", ".join(strategy["markets"]) or "none"
    lines = [
        f"{strategy['name']}: {strategy['summary']}",
        f"Markets: {markets}",
        *(
            f"{name.capitalize()} {strategy[name]}: {words[strategy[name]]}"
            for name, words in IN_WORDS.items()
        ),
        *(_need_line(need) for need in strategy["needs"]),
        *_move_lines(strategy),
    ]
    head = [part for line in lines for part in wrapped(line, cells)]
    settings = rows_of(strategy["settings"])
    return [*head, "", *to_text(SETTINGS.default(), settings, cells)] if settings else head


def _move_lines(strategy: Mapping[str, Any]) -> list[str]:
    keys = f" (from {', '.join(strategy['moves_by'])})" if strategy["moves_by"] else ""
    return [
        f"Migrates{f' in market {market}' if market else ''}: {row['words']}{keys}"
        for row in strategy["moves"]
        for market in [row["market"]]
    ]


_STATES = {True: "filled", False: "missing", None: "not known before the first period"}


def _need_line(need: Mapping[str, Any]) -> str:
    lacking = ", ".join(need["lacking"])
    where = f" in market {lacking}" if lacking else ""
    return f"Needs {need['name']}: {_STATES[need['filled']]}{where} (from {need['source']})"


STRATEGY = Verb(
    "strategy",
    summary="list the strategies, or show one with its settings",
    description="""\
`merkatd strategy list|show NAME`: what the strategies declare, and their settings in each market.

`show` prints the limits on migrations that the strategy declares, and for each setting its value by
market, its default, its range, its unit, and whether a tuner may change it. What the strategy needs
is judged by the hosts of each market. A key of section [strategy.NAME] applies to all markets of
the strategy; a section [market.NAME.settings] changes keys for one market.
""",
    add_arguments=add_strategy_arguments,
    run=run_strategy,
)
