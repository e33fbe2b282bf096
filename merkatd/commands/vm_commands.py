"""Commands about VMs: `explain`, `limits`."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from merkatd.commands.ask_daemon import add_view, show_view
from merkatd.commands.order_command import COUNTS_AGAIN
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import plain, wrapped
from merkatd.commands.terminal.table_columns import figure

EXPLAIN_TABLE = ScreenTable(
    "SHARE",
    (
        Column(
            "RESOURCE", "resource", ColumnFormat.TEXT, "cpu in percent of a core, memory in MiB"
        ),
        Column("BID", "bid", ColumnFormat.CREDITS, "its bid, in credits a period"),
        Column("BIDS", "bids", ColumnFormat.CREDITS, "all bids on its host"),
        Column("CAPACITY", "capacity", ColumnFormat.NUMBER, "the part of its host that is divided"),
        Column("BY_BID", "by_bid", ColumnFormat.NUMBER, "BID / BIDS x CAPACITY"),
        Column("OTHERS", "others", ColumnFormat.NUMBER, "the effect of other VMs' caps and floors"),
        Column("FLOOR", "floor", ColumnFormat.NUMBER, "the amount that its floor adds"),
        Column("CAP", "cap", ColumnFormat.NUMBER, "the amount that its cap cuts off"),
        Column("REST", "rest", ColumnFormat.NUMBER, "changes by the strategy or an overfull host"),
        Column("SHARE", "share", ColumnFormat.NUMBER, "BY_BID + OTHERS + FLOOR + CAP + REST"),
        Column("USED", "used", ColumnFormat.NUMBER, "its real use since the period before"),
        Column(
            "USED_LATELY",
            "used_lately",
            ColumnFormat.NUMBER,
            "its real use, on average over a dozen periods",
            default=False,
        ),
        Column("LEAST", "least", ColumnFormat.NUMBER, "its floor", default=False),
        Column("MOST", "most", ColumnFormat.NUMBER, "its cap", default=False),
        Column(
            "FIRST",
            "first",
            ColumnFormat.NUMBER,
            "its share if its market were one host",
            default=False,
        ),
        Column(
            "ERROR", "error", ColumnFormat.PART, "|FIRST - SHARE| / FIRST (Eq. 2)", default=False
        ),
        Column("BIDDERS", "bidders", ColumnFormat.WHOLE, "VMs that bid on its host", default=False),
        Column("PRICE", "price", ColumnFormat.PRICE, "credits per unit and period", default=False),
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
_SHOWN = "RESOURCE,BID,BIDS,CAPACITY,BY_BID,OTHERS,FLOOR,CAP,SHARE,USED"
_LABEL = 12
_RAISED_BY_A_BID = frozenset({"bids", "floor", "no bid", "reserve price"})
"""Limiting reasons against which a higher bid helps."""


def add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `explain`."""
    parser.add_argument(
        "vm", metavar="VM", type=command_parser.reference, help="the VM, by id or name"
    )
    add_view(parser, {"explain": EXPLAIN_TABLE})


def run_explain(arguments: argparse.Namespace) -> int:
    """Show why a VM has its shares and its host."""
    return show_view(
        "explain",
        arguments,
        EXPLAIN_TABLE,
        lambda ask: ask("explain", vm=arguments.vm),
        rows=lambda answer: answer["resources"],
        text=_explain_text,
        whole=True,
    )


def _explain_text(answer: Any, cells: int | None) -> Sequence[str]:
    parts = rows_of(answer["resources"])
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
        lines += wrapped(_said(part, answer.get("rate")), cells, "", "  ")
    return lines


def _facts(answer: Any) -> Iterator[tuple[str, str]]:
    yield "State", f"{answer['state']} in period {answer['period']}"
    yield "Host", answer["host"] or "none"
    here = answer["why_here"]
    if here is not None:
        yield "Why there", f"{here['reason']} ({here['kind']} of period {here['period']})"
    yield "Bid from", answer["bid_source"]
    if answer["limit_order"] is not None:
        yield "Limit order", f"{answer['limit_order']}: {COUNTS_AGAIN}"
    balance = answer["balance"]
    left = "" if balance is None else f"; {balance:,.0f} credits are left"
    cost = f"{answer['cost']:.4g} credits a period"
    if answer.get("rate") is not None:
        cost = f"at most {cost}, {answer['rate']:.4g} for each core that it uses"
    yield "Cost", f"{cost}{left}"
    if answer["message"] and answer["host"] is not None:
        yield "Message", answer["message"]


def _said(part: Any, rate: float | None) -> str:
    """Return the line of a resource; with `rate`, only used CPU is charged, at `rate` a core."""
    price = "no price clears" if part["price"] is None else f"price {part['price']:.6g}"
    costs = f"{price}, costs {part['cost']:.4g} a period"
    if rate is not None:
        sold = part["resource"] == "cpu"
        costs = f"costs at most {part['cost']:.4g} a period" if sold else "is not sold"
    wanted = part["bid_for_all"]
    more = ""
    if part["limited_by"] in _RAISED_BY_A_BID and wanted is not None:
        more = f"; a bid of {wanted:.4g} would get all {figure(part['most'])}"
    within = f"floor {figure(part['least'])}, cap {figure(part['most'])}"
    return f"{part['resource']}: {within}, {costs}; why not more: {part['why_not_more']}{more}"


EXPLAIN = Verb(
    "explain",
    summary="explain a VM's shares and its host",
    description="""\
`merkatd explain`: explain a VM's shares and its host, and which bid would get it more.

The command splits the share of each resource into terms that add up to it: its bid's part of the
capacity (BY_BID), the effect of its neighbours' caps and floors (OTHERS), the amount that its floor
adds (FLOOR) and the amount that its cap cuts off (CAP).
""",
    add_arguments=add_explain_arguments,
    run=run_explain,
)


LIMITS_TABLE = ScreenTable(
    "LIMITS",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=8),
        Column("HOST", "host", ColumnFormat.TEXT, "its host", least=7),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "its CPU share, in percent of a core"),
        Column("SET_CPU", "set_cpu", ColumnFormat.NUMBER, "its CPU quota; - without a quota"),
        Column("USED_CPU", "used_cpu", ColumnFormat.NUMBER, "CPU used since the latest period"),
        Column(
            "WEIGHT",
            "weight",
            ColumnFormat.WHOLE,
            "its CPU weight against its neighbours",
            default=False,
        ),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "its memory share, in MiB"),
        Column(
            "SET_MEMORY", "set_memory", ColumnFormat.NUMBER, "its balloon's target; - without one"
        ),
        Column(
            "HELD_MEMORY",
            "held_memory",
            ColumnFormat.NUMBER,
            "memory that it occupies",
            optional=True,
        ),
        Column(
            "USED_MEMORY",
            "used_memory",
            ColumnFormat.NUMBER,
            "memory that its guest uses, if known",
        ),
        Column(
            "NETWORK",
            "network",
            ColumnFormat.NUMBER,
            "its network share, in Mbit/s each way",
            sometimes=True,
        ),
        Column(
            "SET_NETWORK",
            "set_network",
            ColumnFormat.NUMBER,
            "the limit of its interfaces together; - if there is none or can be none",
            sometimes=True,
        ),
        Column("DISK", "disk", ColumnFormat.NUMBER, "its disk share, in MiB/s", sometimes=True),
        Column(
            "SET_DISK",
            "set_disk",
            ColumnFormat.NUMBER,
            "the limit of its disks together; - if there is none or can be none",
            sometimes=True,
        ),
        Column(
            "PINS", "pins", ColumnFormat.TEXT, "cores of each virtual CPU", least=6, optional=True
        ),
        Column(
            "NOTE", "note", ColumnFormat.TEXT, "why a limit is not set", least=12, optional=True
        ),
    ),
)


def add_limits_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `limits`."""
    parser.add_argument(
        "of",
        metavar="VM|HOST",
        nargs="?",
        type=command_parser.reference,
        help="show only this VM, or the VMs of this host, by id or name",
    )
    add_view(parser, {"limits": LIMITS_TABLE})


def run_limits(arguments: argparse.Namespace) -> int:
    """Show the wanted and the enforced limits of VMs."""
    return show_view("limits", arguments, LIMITS_TABLE, lambda ask: ask("limits", of=arguments.of))


LIMITS = Verb(
    "limits",
    summary="show VMs' shares, the limits set on hosts, and the real use",
    description="""\
`merkatd limits`: show each VM's share, the limits that its host enforces, and its real use.

The daemon reads limits and use from the hosts at this moment; the shares are those of the latest
period. A number is read as a VM's id before a host's.
""",
    add_arguments=add_limits_arguments,
    run=run_limits,
)
