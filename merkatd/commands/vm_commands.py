"""The command `explain`."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from merkatd.base.hourly_prices import price_text
from merkatd.base.quantities import credits_text
from merkatd.commands.ask_daemon import Ask, add_view, show_view
from merkatd.commands.order_command import COUNTS_AGAIN
from merkatd.commands.reports.reason_commands import (
    APPLICATION,
    PRICE_REASONS,
    REFUSALS,
    explain_application,
    explain_price,
    explain_refusal,
)
from merkatd.commands.screens.hourly_rows import interval_of, with_hourly_prices
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_parser import NOT_DONE, NotDoneError, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.screen_text import plain, wrapped
from merkatd.commands.terminal.table_columns import figure
from merkatd.protocol.control_messages import BID_SOURCES

EXPLAIN_TABLE = ScreenTable(
    "SHARE",
    (
        Column("VM", "vm", ColumnFormat.WHOLE, "the VM's id", default=False),
        Column(
            "RESOURCE", "resource", ColumnFormat.TEXT, "cpu in percent of a core, memory in MiB"
        ),
        Column("BID", "bid", ColumnFormat.CREDITS, "its bid, in credits a period"),
        Column("BIDS", "bids", ColumnFormat.CREDITS, "all bids on its host"),
        Column("CAPACITY", "capacity", ColumnFormat.NUMBER, "the part of its host that is divided"),
        Column("BY_BID", "by_bid", ColumnFormat.NUMBER, "BID / BIDS x CAPACITY"),
        Column("OTHERS", "others", ColumnFormat.NUMBER, "the effect of other VMs' caps and floors"),
        Column("BY_FLOOR", "floor", ColumnFormat.NUMBER, "the amount that its floor adds"),
        Column("BY_CAP", "cap", ColumnFormat.NUMBER, "the amount that its cap cuts off"),
        Column("REST", "rest", ColumnFormat.NUMBER, "changes by the strategy or an overfull host"),
        Column("SHARE", "share", ColumnFormat.NUMBER, "BY_BID + OTHERS + BY_FLOOR + BY_CAP + REST"),
        Column("USED", "used", ColumnFormat.NUMBER, "its real use since the period before"),
        Column(
            "USED_LATELY",
            "used_lately",
            ColumnFormat.NUMBER,
            "its real use, on average over a dozen periods",
            default=False,
        ),
        Column("FLOOR", "least", ColumnFormat.NUMBER, "its floor", default=False),
        Column("CAP", "most", ColumnFormat.NUMBER, "its cap", default=False),
        Column(
            "FIRST",
            "first",
            ColumnFormat.NUMBER,
            "its share if its market were one host",
            default=False,
        ),
        Column(
            "ERROR",
            "error",
            ColumnFormat.PART,
            "|FIRST - SHARE| / FIRST (Eq. 2); 0 if it has all that it can use",
            default=False,
        ),
        Column("BIDDERS", "bidders", ColumnFormat.WHOLE, "VMs that bid on its host", default=False),
        Column(
            "PRICE",
            "hourly_price",
            ColumnFormat.CREDITS,
            "credits per core-hour or GiB-hour",
            default=False,
        ),
        Column(
            "COST", "cost", ColumnFormat.CREDITS, "the cost of a period, in credits", default=False
        ),
        Column(
            "LIMITED_BY",
            "limited_by",
            ColumnFormat.TEXT,
            "the reason why it gets no more",
            default=False,
        ),
        Column(
            "BID_FOR_ALL",
            "bid_for_all",
            ColumnFormat.CREDITS,
            "the bid that would get its cap on this host; - if no bid would",
            default=False,
        ),
    ),
)
_SHOWN = "RESOURCE,BID,BIDS,CAPACITY,BY_BID,OTHERS,BY_FLOOR,BY_CAP,SHARE,USED"
_LABEL = 12
_RAISED_BY_A_BID = frozenset({"bids", "floor", "no bid", "reserve price"})
"""Limiting reasons against which a higher bid helps."""


def add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `explain`."""
    parser.add_argument(
        "vms",
        metavar="VM",
        nargs="+",
        type=command_parser.references,
        help="the VMs, by id or name; also lists like 0,2 and ranges like 0..2; or `price`, with or"
        " without a resource; or `application` with an id or name; or `refusal`",
    )
    tables = {"price": PRICE_REASONS, "application": APPLICATION, "refusal": REFUSALS}
    add_view(parser, {"explain": EXPLAIN_TABLE, **tables})


def run_explain(arguments: argparse.Namespace) -> int:
    """Show why VMs have their shares and their hosts."""
    vms = list(dict.fromkeys(vm for listed in arguments.vms for vm in listed))
    if vms[0] == "price" and len(vms) <= 2:
        return explain_price(arguments, vms[1] if len(vms) > 1 else None)
    if vms[0] == "application" and len(vms) == 2:
        return explain_application(arguments, vms[1])
    if vms == ["refusal"]:
        return explain_refusal(arguments)
    if len(vms) > 1:
        return _explain_several(arguments, vms)
    return show_view(
        "explain",
        arguments,
        EXPLAIN_TABLE,
        lambda ask: _explained(ask, vms[0], interval_of(ask)),
        rows=_rows,
        text=_explain_text,
        whole=True,
    )


def _explain_several(arguments: argparse.Namespace, vms: Sequence[str]) -> int:
    """Explain each VM; those that can't be explained get a line on standard error."""
    missing: dict[str, str] = {}
    table = ScreenTable(
        EXPLAIN_TABLE.what,
        [
            replace(column, default=column.default or column.name == "VM", kept=column.name == "VM")
            for column in EXPLAIN_TABLE.columns
        ],
    )

    def fetch(ask: Ask) -> Any:
        interval_s, answers = interval_of(ask), []
        missing.clear()
        for vm in vms:
            try:
                answers.append(_explained(ask, vm, interval_s))
            except NotDoneError as error:
                missing[vm] = str(error)
        return {"vms": answers}

    def text(answer: Any, cells: int | None) -> Sequence[str]:
        lines: list[str] = []
        for one in answer["vms"]:
            lines += [*([""] if lines else []), *_explain_text(one, cells)]
        return lines

    code = show_view(
        "explain",
        arguments,
        table,
        fetch,
        rows=lambda answer: [row for one in answer["vms"] for row in _rows(one)],
        text=text,
        whole=True,
    )
    for why in missing.values():
        code = print_failure("explain", why, NOT_DONE, arguments.door.program)
    return code


def _explained(ask: Ask, vm: str, interval_s: float) -> Any:
    return {**ask("explain", vm=vm), "interval_s": interval_s}


def _rows(answer: Any) -> list[Mapping[str, Any]]:
    """Return the resources of a VM with the VM's id and their prices for an hour."""
    return [{**row, "vm": answer["id"]} for row in with_hourly_prices(answer)]


def _explain_text(answer: Any, cells: int | None) -> Sequence[str]:
    parts = _rows(answer)
    lines = [*wrapped(answer["sentence"], cells), ""]
    for label, fact in _facts(answer):
        lines += wrapped(plain(fact), cells, f"{label:<{_LABEL}} ", " " * (_LABEL + 1))
    if not parts:
        return lines
    columns = EXPLAIN_TABLE.chosen(_SHOWN)
    if any(abs(part["rest"]) > 0.05 for part in parts):
        columns = EXPLAIN_TABLE.default()
    lines += ["", *to_text(columns, parts, cells), ""]
    for part in parts:
        lines += wrapped(_said(part, answer), cells, "", "  ")
    return lines


def _facts(answer: Any) -> Iterator[tuple[str, str]]:
    yield "State", f"{answer['state']} in period {answer['period']}"
    yield "Host", answer["host"] or "none"
    here = answer["why_here"]
    if here is not None:
        yield "Why there", f"{here['reason']} ({here['kind']} of period {here['period']})"
    if answer["standing"] is not None:
        standing = answer["standing"].removeprefix("Its application ")
        yield "Application", f"{answer['application']} {standing}"
    yield "Bid from", BID_SOURCES.get(answer["bid_source"], answer["bid_source"])
    if answer["limit_order"] is not None:
        yield "Limit order", f"{answer['limit_order']}: {COUNTS_AGAIN}"
    if answer["queue"] is not None:
        yield "Queue", _queue_text(answer["queue"])
    balance = answer["balance"]
    left = "" if balance is None else f"; {credits_text(balance)} credits are left"
    cost = f"{credits_text(answer['cost'])} credits a period"
    if answer.get("rate") is not None:
        cost = f"at most {cost}, {credits_text(answer['rate'])} for each core that it uses"
    yield "Cost", f"{cost}{left}"
    if answer["message"] and answer["message"] not in answer["sentence"]:
        yield "Message", answer["message"]


def _queue_text(queue: Any) -> str:
    """Return how many VMs are placed before a VM that waits, and what they bid and can use."""
    if queue["waiting"] == 1:
        return "no other VM waits"
    if not queue["vms"]:
        return f"it is the first of the {queue['waiting']} VMs that wait"
    bids = ", ".join(f"{name} {credits_text(bid)}" for name, bid in queue["bids"].items())
    size = ", ".join(f"{name} {figure(amount)}" for name, amount in queue["size"].items())
    names = f": VM {', '.join(queue['names'])}" if queue.get("names") else ""
    return (
        f"{queue['vms']} of the {queue['waiting']} VMs that wait are placed before it{names}; their"
        f" bids are {bids} together, and they can use {size}"
    )


def _said(part: Any, answer: Any) -> str:
    """Return the line of a resource; if use is charged, only CPU has a cost."""
    price = price_text(part["price"], part["resource"], answer["interval_s"])
    cost = credits_text(part["cost"])
    costs = f"{price}, costs {cost} a period"
    if answer.get("rate") is not None:
        costs = f"costs at most {cost} a period" if part["resource"] == "cpu" else "is not sold"
    wanted = part["bid_for_all"]
    more = ""
    if part["limited_by"] in _RAISED_BY_A_BID and wanted is not None:
        more = f"; a bid of {credits_text(wanted)} would get all {figure(part['most'])}"
    within = f"floor {figure(part['least'])}, cap {figure(part['most'])}"
    return f"{part['resource']}: {within}, {costs}; why not more: {part['why_not_more']}{more}"


EXPLAIN = Verb(
    "explain",
    summary="explain VMs' shares and hosts",
    description="""\
`merkatd explain VM`: explain a VM's shares and its host, and which bid would get it more.

Several VMs can be given, also as a list or a range: `merkatd explain 0..2`. For a VM that waits,
the command says how many VMs are placed before it.

`merkatd explain price [RESOURCE]` shows how the price came about: capacity, floors, bids, the price
rule, and the price with lower bids. `merkatd explain refusal` shows the last 20 refused
requests of each user, with the reasons; a restart of the daemon clears them. `merkatd explain
application APPLICATION` shows the utility of an application, its predicted end or response time,
and what its goal takes, if the strategy of its market knows them. Give a VM that has one of these
names by its id.

The command splits the share of each resource into terms that add up to it: its bid's part of the
capacity (BY_BID), the effect of its neighbours' caps and floors (OTHERS), the amount that its floor
adds (BY_FLOOR) and the amount that its cap cuts off (BY_CAP).
""",
    add_arguments=add_explain_arguments,
    run=run_explain,
)
