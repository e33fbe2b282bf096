"""The command `order`: limit orders, their quotes, and the order book of a market."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from merkatd.base.quantities import credits_text, duration_text, time_text
from merkatd.commands.ask_daemon import Ask, add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import ConflictingArgumentsError
from merkatd.commands.terminal.screen_text import wrapped
from merkatd.commands.texts.empty_texts import NO_LIMIT_ORDERS
from merkatd.commands.texts.limit_quote_text import LIMIT_QUOTE_TABLE, limit_quote_lines

ORDER_TABLE = ScreenTable(
    "ORDER",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "the limit order's id"),
        Column("USER", "owner_name", ColumnFormat.TEXT, "the user that pays", least=6),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "the id of the user that pays", default=False),
        Column("MARKET", "market", ColumnFormat.TEXT, "the market of its VMs", default=False),
        Column("VMS", "vms", ColumnFormat.LIST, "the ids of its VMs", least=8),
        Column(
            "LIMIT",
            "limit",
            ColumnFormat.CREDITS,
            "the most that its VMs together may cost, in credits a period",
        ),
        Column(
            "NOW",
            "limit_now",
            ColumnFormat.CREDITS,
            "the limit in force: LIMIT, or LIMIT x FACTOR after a start",
            optional=True,
        ),
        Column("COST", "cost", ColumnFormat.CREDITS, "credits a period that it pays", kept=True),
        Column("RUNS", "runs", ColumnFormat.TEXT, "whether its VMs run"),
        Column("SINCE", "since_s", ColumnFormat.TIME, "its last start or stop", optional=True),
        Column(
            "LEAST_RUN",
            "least_run_s",
            ColumnFormat.NUMBER,
            "the seconds after each start for which FACTOR applies",
            default=False,
        ),
        Column(
            "FACTOR",
            "factor",
            ColumnFormat.NUMBER,
            "the multiple of the limit that applies after a start",
            default=False,
        ),
        Column(
            "PLATFORM",
            "platform",
            ColumnFormat.WHOLE,
            "the platform that it belongs to",
            default=False,
        ),
        Column("STATED", "stated_s", ColumnFormat.TIME, "when it was stated", default=False),
        Column(
            "WHY",
            "why",
            ColumnFormat.TEXT,
            "the reason why it waits",
            least=10,
            optional=True,
            kept=True,
        ),
    ),
    NO_LIMIT_ORDERS,
)
BOOK_TABLE = ScreenTable(
    "ORDER",
    (
        Column(
            "HEIGHT",
            "height",
            ColumnFormat.PART,
            "the multiple of the present prices that it can pay for its bundle",
        ),
        Column("LIMIT", "limit", ColumnFormat.CREDITS, "the limit in force, in credits a period"),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "its CPU, in percent of a core"),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "its memory, in MiB"),
        Column("NETWORK", "network", ColumnFormat.NUMBER, "its network, in Mbit/s", sometimes=True),
        Column("DISK", "disk", ColumnFormat.NUMBER, "its disk, in MiB/s", sometimes=True),
        Column("RUNS", "runs", ColumnFormat.TEXT, "whether its VMs run"),
    ),
    NO_LIMIT_ORDERS,
)
_TABLES = {
    "set": ORDER_TABLE,
    "change": ORDER_TABLE,
    "delete": ORDER_TABLE,
    "list": ORDER_TABLE,
    "book": BOOK_TABLE,
    "quote": LIMIT_QUOTE_TABLE,
}
_USAGES = {
    "set": "set VM ... --limit CREDITS",
    "change": "change ID",
    "delete": "delete ID",
    "list": "list",
    "book": "book",
    "quote": "quote VM ..., or quote --cpu UNITS --memory MIB",
}
_QUESTIONS = {
    "set": "limit_order_set",
    "change": "limit_order_change",
    "delete": "limit_order_delete",
    "list": "limit_orders",
    "book": "limit_order_book",
    "quote": "limit_order_quote",
}
_SIZES = ("cpu", "memory", "network", "disk")
_FEW = 10
"""The most VMs that a sentence names."""
COUNTS_AGAIN = "its own bid counts again when the order is deleted"


def add_order_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `order`."""
    parser.add_argument("what", metavar="WHAT", choices=tuple(_TABLES), help=", ".join(_TABLES))
    parser.add_argument(
        "subjects",
        metavar="SUBJECT",
        nargs="*",
        type=command_parser.reference,
        help="with set and quote: the VMs, by id or name; with change and delete: the limit order's"
        " id",
    )
    parser.add_argument(
        "--limit",
        metavar="CREDITS",
        type=command_parser.bid,
        help="with set and change: the most that all VMs together may cost a period; with quote:"
        " show the odds of this limit only",
    )
    parser.add_argument(
        "--least-run",
        metavar="TIME",
        type=command_parser.duration,
        help="with set and change: the time after each start for which the factor applies, like"
        " 90s, 10m or 2h",
    )
    parser.add_argument(
        "--factor",
        metavar="X",
        type=command_parser.factor,
        help="with set and change: during that time the limit is X times as high",
    )
    parser.add_argument(
        "--market",
        metavar="MARKET",
        type=command_parser.reference,
        help="with book, and with quote without VMs: the market",
    )
    quoted = parser.add_argument_group("a quote")
    quoted.add_argument(
        "--work",
        metavar="TIME",
        type=command_parser.duration,
        help="the time that the VMs must run until the deadline, like 90m, 2h or 3d",
    )
    quoted.add_argument(
        "--within",
        metavar="TIME",
        type=command_parser.duration,
        help="the time from now until the deadline",
    )
    for good, unit, words in (
        ("cpu", "UNITS", "the CPU in percent of a core"),
        ("memory", "MIB", "the memory in MiB"),
        ("network", "MBIT/S", "the network in Mbit/s, if sold,"),
        ("disk", "MIB/S", "the disk bandwidth in MiB/s, if sold,"),
    ):
        quoted.add_argument(
            f"--{good}",
            metavar=unit,
            type=command_parser.bid,
            help=f"{words} that VMs which do not exist yet use together",
        )
    add_view(parser, _TABLES)


def run_order(arguments: argparse.Namespace) -> int:
    """Show or change limit orders."""
    what: str = arguments.what
    if what == "quote":
        return show_view(
            "order",
            arguments,
            LIMIT_QUOTE_TABLE,
            lambda ask: _ask_quote(ask, arguments),
            rows=lambda answer: answer["odds"],
            text=limit_quote_lines,
            whole=True,
        )
    one = what in {"set", "change", "delete"}
    return show_view(
        "order",
        arguments,
        _TABLES[what],
        lambda ask: _ask(ask, arguments),
        rows=(lambda answer: [answer]) if one else (lambda answer: answer),
        text=(lambda answer, cells: _lines(what, answer, cells)) if one else None,
        whole=one,
        changes=one,
    )


def _ask(ask: Ask, given: argparse.Namespace) -> Any:
    what = given.what
    _check(given)
    terms = {"limit": given.limit, "least_run_s": given.least_run, "factor": given.factor}
    if what == "set":
        return ask(_QUESTIONS[what], vms=given.subjects, **terms)
    if what in {"list", "book"}:
        return ask(_QUESTIONS[what], market=given.market)
    try:
        order = command_parser.whole(given.subjects[0])
    except argparse.ArgumentTypeError as error:
        raise ConflictingArgumentsError(str(error)) from None
    return ask(_QUESTIONS[what], order=order, **terms)


def _ask_quote(ask: Ask, given: argparse.Namespace) -> Any:
    _check(given)
    sizes = {name: getattr(given, name) for name in _SIZES}
    return ask(
        _QUESTIONS["quote"],
        vms=given.subjects or None,
        market=given.market,
        limits=None if given.limit is None else [given.limit],
        work_s=given.work,
        within_s=given.within,
        **sizes,
    )


def _check(given: argparse.Namespace) -> None:
    """Raise ConflictingArgumentsError if the arguments do not fit the verb."""
    what, number = given.what, len(given.subjects)
    sized = any(getattr(given, name) is not None for name in _SIZES)
    if what == "quote":
        fits = (number > 0) != sized
    else:
        fits = number > 0 if what == "set" else number == int(what in {"change", "delete"})
    if not fits:
        raise ConflictingArgumentsError(
            f"wrong number of arguments; expected: {given.door.program} order {_USAGES[what]}"
        )
    options = [given.limit, given.least_run, given.factor]
    if what == "set" and given.limit is None:
        raise ConflictingArgumentsError("set needs --limit CREDITS")
    if what == "change" and all(option is None for option in options):
        raise ConflictingArgumentsError("change needs --limit, --least-run or --factor")
    may_have = options[1:] if what == "quote" else options
    if what not in {"set", "change"} and any(option is not None for option in may_have):
        raise ConflictingArgumentsError(
            "--limit, --least-run and --factor can be used only with set and change, and --limit"
            " with quote"
        )
    if what != "quote" and (sized or given.work is not None or given.within is not None):
        raise ConflictingArgumentsError(
            "--work, --within and the sizes can be used only with quote"
        )
    if given.market is not None and what != "book" and not sized:
        raise ConflictingArgumentsError(
            "--market can be used only with book, and with quote without VMs"
        )
    if (given.work is None) != (given.within is None):
        raise ConflictingArgumentsError("a deadline needs both --work and --within")


def _lines(what: str, order: Any, cells: int | None) -> Sequence[str]:
    lines: list[str] = []
    for text in _texts(what, order):
        lines += wrapped(text, cells)
    return lines


def _texts(what: str, order: Any) -> Iterator[str]:
    vms, alone = order["vms"], len(order["vms"]) == 1
    which = f"VM{'' if alone else 's'} {', '.join(map(str, vms))}"
    if len(vms) > _FEW:
        which = f"{len(vms):,} VMs"
    if what == "delete":
        again = "its own bid counts again" if alone else "their own bids count again"
        yield f"Limit order {order['id']} of {which} is deleted: {again}."
        return
    runs = "runs while it costs" if alone else "run together while they cost"
    limit, after = order["limit"], ""
    if order["factor"] > 1 and order["least_run_s"] > 0:
        longest = duration_text(order["least_run_s"])
        after = f", and at most {credits_text(limit * order['factor'])} for {longest} after a start"
    yield (
        f"Limit order {order['id']}: {which} {runs} at most"
        f" {credits_text(limit)} credits a period{after}."
    )
    if order["since_s"] is None and order["cost"] is None and not order["why"]:
        yield f"The next period decides whether {'it runs' if alone else 'they run'}."
        return
    since = "" if order["since_s"] is None else f" since {time_text(order['since_s'])}"
    why = f": {order['why']}" if order["why"] else ""
    state = "runs" if order["runs"] else "waits"
    yield f"The order {state}{since}{why}. A change applies from the next period on."


def order_note(vm: int, order: int | None) -> str | None:
    """Return the note that a VM is in a limit order, or None if it is in none."""
    return None if order is None else f"VM {vm} is in limit order {order}: {COUNTS_AGAIN}"


ORDER = Verb(
    "order",
    summary="state, change, delete, list and quote limit orders",
    description="""\
`merkatd order`: run VMs together at full size while they cost at most a limit, else none of them.

merkatd order set VM ... --limit CREDITS: state a limit order for these VMs; with --least-run TIME
--factor X the limit is X times as high for TIME after each start, so that the VMs are not suspended
soon after it.

merkatd order change ID --limit CREDITS: change the limit, the time or the factor.

merkatd order delete ID: delete it; the VMs' own bids count again, and VMs that were suspended for
the order are resumed.

A VM that its owner stops, suspends or powers off stays so until its owner resumes it. Meanwhile the
order runs its other VMs.

merkatd order list: all limit orders. COST is what an order pays; a higher limit does not raise it.

merkatd order book: the limit orders of a market by height, the multiple of the present prices that
an order can pay.

merkatd order quote VM ...: which limit would start the VMs now; or, for VMs that do not exist yet,
merkatd order quote --cpu UNITS --memory MIB. A table shows how limits would have done in the
recorded past. With --work TIME --within TIME it has the chance that the VMs run for so long until
the deadline. Count the time to boot and to resume as work. The quote changes nothing.

A tenant states orders through XML-RPC (docs/xmlrpc.md). Example: `merkatd order set 12 13 14
--limit 3.5 --least-run 10m --factor 2`.
""",
    add_arguments=add_order_arguments,
    run=run_order,
)
