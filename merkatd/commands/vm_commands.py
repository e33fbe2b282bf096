"""`explain`, `limits`."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from merkatd.commands.ask_daemon import add_view, show_view
from merkatd.commands.terminal import Column, Kind, Table, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import plain, wrapped
from merkatd.commands.terminal.table_columns import figure

EXPLAIN_TABLE = Table(
    "SHARE",
    (
        Column("RESOURCE", "resource", Kind.TEXT, "cpu in percent of a core, memory in MiB"),
        Column("BID", "bid", Kind.CREDITS, "its bid, in credits a period"),
        Column("BIDS", "bids", Kind.CREDITS, "all bids on its host"),
        Column("CAPACITY", "capacity", Kind.NUMBER, "what there is to divide on its host"),
        Column("BY_BID", "by_bid", Kind.NUMBER, "BID / BIDS x CAPACITY"),
        Column("OTHERS", "others", Kind.NUMBER, "what others leave over or need to live"),
        Column("FLOOR", "floor", Kind.NUMBER, "what its floor adds"),
        Column("CAP", "cap", Kind.NUMBER, "what its cap cuts off"),
        Column("REST", "rest", Kind.NUMBER, "what the strategy or an overfull host changes"),
        Column("SHARE", "share", Kind.NUMBER, "BY_BID + OTHERS + FLOOR + CAP + REST"),
        Column("USED", "used", Kind.NUMBER, "what it really used since the period before"),
        Column(
            "USED_LATELY",
            "used_lately",
            Kind.NUMBER,
            "the same, on average over a dozen periods",
            default=False,
        ),
        Column("LEAST", "least", Kind.NUMBER, "its floor", default=False),
        Column("MOST", "most", Kind.NUMBER, "its cap", default=False),
        Column(
            "FIRST", "first", Kind.NUMBER, "its share if its market were one host", default=False
        ),
        Column("ERROR", "error", Kind.PART, "|FIRST - SHARE| / FIRST (Eq. 2)", default=False),
        Column("BIDDERS", "bidders", Kind.WHOLE, "VMs that bid on its host", default=False),
        Column("PRICE", "price", Kind.PRICE, "credits per unit and period", default=False),
        Column("COST", "cost", Kind.CREDITS, "credits that a period costs", default=False),
        Column("LIMITED_BY", "limited_by", Kind.TEXT, "what keeps it from more", default=False),
        Column(
            "BID_FOR_ALL",
            "bid_for_all",
            Kind.CREDITS,
            "the bid that would get its cap here; - where none would",
            default=False,
        ),
    ),
)
_SHOWN = "RESOURCE,BID,BIDS,CAPACITY,BY_BID,OTHERS,FLOOR,CAP,SHARE,USED"
_LABEL = 12
_RAISED_BY_A_BID = frozenset({"bids", "floor", "no bid", "reserve price"})
"""Reasons for which more of a resource is a matter of the bid."""


def add_explain_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "vm", metavar="VM", type=command_parser.reference, help="the VM, by id or name"
    )
    add_view(parser, {"explain": EXPLAIN_TABLE})


def run_explain(arguments: argparse.Namespace) -> int:
    """Ask, and print."""
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
    for label, said in _facts(answer):
        lines += wrapped(plain(said), cells, f"{label:<{_LABEL}} ", " " * (_LABEL + 1))
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
    yield "State", f"{answer['state']}, as seen by period {answer['period']}"
    yield "Host", answer["host"] or "none"
    here = answer["why_here"]
    if here is not None:
        yield "Why there", f"{here['reason']} ({here['kind']} of period {here['period']})"
    yield "Bid from", answer["bid_source"]
    balance = answer["balance"]
    left = "" if balance is None else f"; {balance:,.0f} are left to pay with"
    cost = f"{answer['cost']:.4g} credits a period"
    if answer.get("rate") is not None:
        cost = f"at most {cost}, {answer['rate']:.4g} for each core that it uses"
    yield "Cost", f"{cost}{left}"
    if answer["message"] and answer["host"] is not None:
        yield "Message", answer["message"]


def _said(part: Any, rate: float | None) -> str:
    """One resource; `rate` is what a core costs where use is charged, and nothing else is."""
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
    summary="say why a VM gets what it gets",
    description="""\
`merkatd explain`: why a VM gets what it gets, is where it is, and what would get it more.

The share of each resource is taken apart into terms that add up to it: what its bid would
get by itself (BY_BID), what its neighbours leave over or take (OTHERS), what its floor adds
(FLOOR) and its cap cuts off (CAP).
""",
    add_arguments=add_explain_arguments,
    run=run_explain,
)


LIMITS_TABLE = Table(
    "LIMITS",
    (
        Column("ID", "id", Kind.WHOLE, "OpenNebula's id"),
        Column("NAME", "name", Kind.TEXT, "the VM's name", least=8),
        Column("HOST", "host", Kind.TEXT, "where it is", least=7),
        Column("CPU", "cpu", Kind.NUMBER, "its share, in percent of a core"),
        Column("SET_CPU", "set_cpu", Kind.NUMBER, "what its quota lets it use; -: no quota"),
        Column("USED_CPU", "used_cpu", Kind.NUMBER, "what it used since the latest period"),
        Column("WEIGHT", "weight", Kind.WHOLE, "against its neighbours", default=False),
        Column("MEMORY", "memory", Kind.NUMBER, "its share, in MiB"),
        Column("SET_MEMORY", "set_memory", Kind.NUMBER, "what its balloon was told; -: nothing"),
        Column("HELD_MEMORY", "held_memory", Kind.NUMBER, "what it holds", optional=True),
        Column("USED_MEMORY", "used_memory", Kind.NUMBER, "what it uses of that, if it tells"),
        Column("NETWORK", "network", Kind.NUMBER, "its share, in Mbit/s each way", sometimes=True),
        Column(
            "SET_NETWORK",
            "set_network",
            Kind.NUMBER,
            "what its interfaces may send together; -: anything, or they can't be limited",
            sometimes=True,
        ),
        Column("DISK", "disk", Kind.NUMBER, "its share, in MiB/s", sometimes=True),
        Column(
            "SET_DISK",
            "set_disk",
            Kind.NUMBER,
            "what its disks may do together; -: anything, or they can't be limited",
            sometimes=True,
        ),
        Column("PINS", "pins", Kind.TEXT, "cores of each virtual CPU", least=6, optional=True),
        Column("NOTE", "note", Kind.TEXT, "why something is left alone", least=12, optional=True),
    ),
)


def add_limits_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "of",
        metavar="VM|HOST",
        nargs="?",
        type=command_parser.reference,
        help="this VM, or the VMs of this host, by id or name",
    )
    add_view(parser, {"limits": LIMITS_TABLE})


def run_limits(arguments: argparse.Namespace) -> int:
    """Ask, and print the rows."""
    return show_view("limits", arguments, LIMITS_TABLE, lambda ask: ask("limits", of=arguments.of))


LIMITS = Verb(
    "limits",
    summary="show the limits of VMs: wanted, set and used",
    description="""\
`merkatd limits`: what each VM should have, what its host enforces, and what it really uses.

What is set and used is asked of the hosts at this moment; what is wanted is of the latest
period. A number names a VM before a host.
""",
    add_arguments=add_limits_arguments,
    run=run_limits,
)
