"""Commands that show the daemon's state: `status`, `top`."""

import argparse
import json
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from merkatd.base.hourly_prices import price_text
from merkatd.commands.ask_daemon import Ask, add_door, add_view, ask_daemon, show_view, sleep
from merkatd.commands.history_commands import LOG_TABLE as STEPS
from merkatd.commands.list_command import VMS
from merkatd.commands.market_commands import RESOURCES
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_parser import DONE
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of, screen_width
from merkatd.commands.terminal.screen_text import cut, padded, plain, spark
from merkatd.commands.terminal.table_columns import column_text
from merkatd.commands.texts.status_text import status_lines

STATUS_TABLE = ScreenTable(
    "STATUS",
    (
        Column("PERIOD", "period", ColumnFormat.WHOLE, "the latest period that ended"),
        Column("TIME", "at_s", ColumnFormat.TIME, "when that period ended"),
        Column("HOSTS", "hosts", ColumnFormat.WHOLE, "number of hosts in that period"),
        Column("VMS", "vms", ColumnFormat.WHOLE, "number of VMs in that period"),
        Column(
            "MODE", "mode", ColumnFormat.TEXT, "how much of its decisions the daemon carries out"
        ),
        Column("PAUSED", "paused", ColumnFormat.TEXT, "whether the daemon is paused"),
        Column(
            "WAITING_PLAN",
            "waiting_plan",
            ColumnFormat.WHOLE,
            "the plan that waits for approval, in mode ask",
            optional=True,
        ),
        Column(
            "CONFIGURATION",
            "configuration",
            ColumnFormat.TEXT,
            "why the newest configuration is not in force",
            optional=True,
        ),
        Column(
            "STANDBY", "standby", ColumnFormat.TEXT, "why this daemon is on standby", optional=True
        ),
        Column(
            "FAILURES",
            "failures",
            ColumnFormat.WHOLE,
            "failed periods since the last successful one",
        ),
        Column(
            "OUTSTANDING",
            "outstanding_steps",
            ColumnFormat.WHOLE,
            "steps under way, neither confirmed nor given up",
        ),
        Column("SOUND", "accounts_sound", ColumnFormat.TEXT, "whether the accounts balance"),
        Column("DRIFT", "drift", ColumnFormat.WHOLE, "limits that other programs changed"),
        Column(
            "NEWEST",
            "newest_period",
            ColumnFormat.WHOLE,
            "the period that started last",
            default=False,
        ),
        Column(
            "NEWEST_STATE",
            "newest_state",
            ColumnFormat.TEXT,
            "the state of that period",
            default=False,
        ),
        Column("INTERVAL", "interval_s", ColumnFormat.NUMBER, "seconds a period", default=False),
        Column("STARTED", "started_s", ColumnFormat.TIME, "when the daemon started", default=False),
    ),
)


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `status`."""
    add_view(parser, {"status": STATUS_TABLE})


def run_status(arguments: argparse.Namespace) -> int:
    """Show the daemon's state."""
    return show_view(
        "status",
        arguments,
        STATUS_TABLE,
        lambda ask: ask("status"),
        rows=lambda answer: [answer],
        text=status_lines,
        whole=True,
    )


STATUS = Verb(
    "status",
    summary="show the running daemon's state and its prices",
    description="""\
`merkatd status`: show the running daemon's state and its prices.

On a screen the state is in sentences: since when the daemon runs and in which mode, its latest
period, what it manages, whether the books balance, what other programs changed, and each problem.
`--csv`, `--xml` and `--list` print the table instead, `--json` the daemon's whole answer.
""",
    add_arguments=add_status_arguments,
    run=run_status,
)


STEPS_SHOWN = 5
_NAME = 14
_LEAST_BAR, _LARGEST_BAR = 6, 40
_VM_COLUMNS = (
    "ID,NAME,STATE,HOST,BID_CPU,CPU,CAP_CPU,BID_MEMORY,MEMORY,BID_NETWORK,NETWORK,BID_DISK,DISK,"
    "RATE,COST,ERROR,MESSAGE"
)
_STEP_COLUMNS = "PERIOD,KIND,VM,HOST,STATE,REASON"


def frame(
    overview: Any, cells: int, lines: int | None, order: str = "cost", program: str = "merkatd"
) -> list[str]:
    """Return a frame of lines that fit: status, prices, hosts as bars, VMs by `order`, steps."""
    top = [_status(overview["status"], program), *_prices(overview)]
    hosts, steps = rows_of(overview["hosts"]), rows_of(overview["steps"])[:STEPS_SHOWN]
    vms = sorted(rows_of(overview["vms"]), key=lambda vm: -(vm[order] or 0))
    if not overview["price"]:
        return [cut(plain(line), cells) for line in [*top, "", "No period has ended yet."]]
    bottom = _steps(steps, cells)
    room = None if lines is None else max(lines - len(top) - len(bottom), 6)
    host_rows = len(hosts) if room is None else min(len(hosts), max(room // 3, 2))
    top += ["", *_hosts(hosts[:host_rows], cells), *_more(len(hosts) - host_rows, "hosts")]
    vm_rows = len(vms) if lines is None else max(lines - len(top) - len(bottom) - 3, 1)
    top += ["", *_vms(vms[:vm_rows], cells), *_more(len(vms) - vm_rows, "VMs")]
    top += bottom
    return [cut(plain(line), cells) for line in (top if lines is None else top[:lines])]


def _status(status: Mapping[str, Any], program: str) -> str:
    parts = [f"{program}  period {_or_dash(status['period'])}"]
    if status["hosts"] is not None:
        hosts, vms = int(status["hosts"]), int(status["vms"])
        parts.append(f"{hosts} host{'s' * (hosts != 1)}, {vms} VM{'s' * (vms != 1)}")
    if status["outstanding_steps"] is not None:
        parts.append(f"{status['outstanding_steps']} steps under way")
    if status["failures"]:
        parts.append(f"{status['failures']} PERIODS FAILED")
    if status["mode"] != "on":
        parts.append(f"MODE {status['mode'].upper()}")
    if status["paused"]:
        parts.append("PAUSED")
    if status["accounts_sound"] is False:
        parts.append("ACCOUNTS UNSOUND")
    return "   ".join(parts)


def _prices(overview: Any) -> list[str]:
    prices, interval_s = rows_of(overview["price"]), overview["status"]["interval_s"]
    markets = {row["market"] for row in prices}
    return [
        f"{'' if len(markets) == 1 else plain(row['market']) + ' '}{row['resource']:7}"
        f" {price_text(row['price'], row['resource'], interval_s):<32} {spark(row['trend'])}"
        for row in prices
    ]


def _hosts(hosts: Sequence[Mapping[str, Any]], cells: int) -> list[str]:
    """Return one line per host, with a bar per resource: allocated of capacity."""
    sold = [name for name in RESOURCES if any(host.get(name) is not None for host in hosts)]
    shown = [name for name in RESOURCES if name in {"cpu", "memory", *sold}]
    room = cells - _NAME - 11 - 19 * len(shown)
    bar = min(max(room // len(shown), _LEAST_BAR), _LARGEST_BAR)
    wide = bar + 7
    heads = [f"{name.upper():{wide}}" for name in shown]
    bids = [f"BIDS_{name[:3].upper()}" for name in shown]
    lines = [f"{'HOST':{_NAME}} STAT  VMS  {'  '.join([*heads, *bids])}"]
    for host in hosts:
        name = padded(cut(plain(host["name"]), _NAME), _NAME, right=False)
        bars = "  ".join(_bar(host[f"given_{resource}"], host[resource], bar) for resource in shown)
        offers = "  ".join(format(host[f"bids_{resource}"], "8.4g") for resource in shown)
        lines.append(f"{name} {host['state']:4} {host['vms']:4}  {bars}  {offers}")
    return lines


def _bar(given: float, capacity: float | None, cells: int) -> str:
    part = given / capacity if capacity else 0.0
    full = round(min(part, 1.0) * cells)
    return f"[{'|' * full}{' ' * (cells - full)}] {100 * min(part, 9.99):3.0f}%"


def _vms(vms: Sequence[Mapping[str, Any]], cells: int) -> list[str]:
    columns = column_text(VMS.chosen(_VM_COLUMNS), vms)
    return to_text(columns, vms, cells)


def _steps(steps: Sequence[Mapping[str, Any]], cells: int) -> list[str]:
    if not steps:
        return []
    return ["", *to_text(STEPS.chosen(_STEP_COLUMNS), steps, cells)]


def _more(count: int, what: str) -> list[str]:
    return [f"({count} more {what})"] if count > 0 else []


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


ORDERS = ("cost", "cpu", "memory", "error")
_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Escape codes that open the terminal's alternate screen without a cursor, and close it."""
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def add_top_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `top`."""
    parser.add_argument("--once", action="store_true", help="print one frame, and exit")
    parser.add_argument(
        "-d",
        "--delay",
        metavar="SECONDS",
        type=command_parser.delay,
        default=2.0,
        help="refresh every so many seconds (default: 2)",
    )
    parser.add_argument(
        "-o",
        "--order",
        choices=ORDERS,
        metavar="COLUMN",
        default="cost",
        help=f"sort VMs by this, largest first: {', '.join(ORDERS)} (default: cost)",
    )
    parser.add_argument(
        "-j", "--json", action="store_true", help="print the data of one frame as JSON, and exit"
    )
    add_door(parser)


def run_top(arguments: argparse.Namespace) -> int:
    """Show frames until the user quits."""
    return ask_daemon("top", arguments, lambda ask: _show(ask, arguments))


def _show(ask: Ask, arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(json.dumps(ask("overview"), indent=2, allow_nan=False))
        return DONE
    if not arguments.once and sys.stdin.isatty() and sys.stdout.isatty():
        return _live(ask, arguments)
    while True:
        width, program = screen_width() or 120, arguments.door.program
        print("\n".join(frame(ask("overview"), width, None, arguments.order, program)))
        if arguments.once:
            return DONE
        print(flush=True)
        sleep(arguments.delay)


def _live(ask: Ask, arguments: argparse.Namespace) -> int:
    overview = ask("overview")
    with _screen():
        while True:
            _draw(overview, arguments)
            if _quits(arguments.delay):
                return DONE
            overview = ask("overview")


def _draw(overview: Any, arguments: argparse.Namespace) -> None:
    """Draw over the last frame, so that nothing flickers; the terminal's size may have changed."""
    size = shutil.get_terminal_size((80, 24))
    width, height = max(size.columns, 20), max(size.lines, 5)
    lines = frame(overview, width, height, arguments.order, arguments.door.program)
    sys.stdout.write(_HOME + f"{_REST_OF_LINE}\n".join(lines) + _REST_OF_LINE + _REST_OF_SCREEN)
    sys.stdout.flush()


def _quits(delay_s: float) -> bool:
    """Wait, and return whether q was pressed. Any other key ends the wait early."""
    readable, _, _ = select.select([sys.stdin], [], [], delay_s)
    return bool(readable) and sys.stdin.read(1) in {"q", "Q", ""}


@contextmanager
def _screen() -> Iterator[None]:
    """Switch the terminal to a live view, and restore it afterwards, also after an error."""
    before = termios.tcgetattr(sys.stdin)
    sys.stdout.write(_BEGIN)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write(_END)
        sys.stdout.flush()


TOP = Verb(
    "top",
    summary="watch prices, hosts, VMs and steps",
    description="""\
`merkatd top`: watch prices, hosts, VMs and the latest steps, live; q or Ctrl-C ends it.""",
    add_arguments=add_top_arguments,
    run=run_top,
)
