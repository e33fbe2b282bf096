"""`merkatd top`: prices, hosts, VMs and the last decisions, live; q or Ctrl-C ends it."""

import argparse
import json
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from merkatd.commands import words
from merkatd.commands.asking import Ask, answered
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config
from merkatd.commands.output import screen_width
from merkatd.commands.top_frame import frame
from merkatd.commands.verb import Verb
from merkatd.commands.view import sleep

ORDERS = ("cost", "cpu", "memory", "error")

_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The terminal's other screen without a cursor, and back."""
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def add_top_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("--once", action="store_true", help="print one frame, and exit")
    parser.add_argument(
        "-d",
        "--delay",
        metavar="SECONDS",
        type=words.delay,
        default=2.0,
        help="look again every so many seconds (default: 2)",
    )
    parser.add_argument(
        "-o",
        "--order",
        choices=ORDERS,
        metavar="COLUMN",
        default="cost",
        help=f"VMs with the most of this first: {', '.join(ORDERS)} (default: cost)",
    )
    parser.add_argument(
        "-j", "--json", action="store_true", help="print what a frame is made of, once, as JSON"
    )
    add_config(parser)


def run_top(arguments: argparse.Namespace) -> int:
    """Ask and draw, again and again."""
    return answered("top", arguments, lambda ask: _show(ask, arguments))


def _show(ask: Ask, arguments: argparse.Namespace) -> int:
    if arguments.json:
        print(json.dumps(ask("overview"), indent=2, allow_nan=False))
        return DONE
    if arguments.once:
        print("\n".join(frame(ask("overview"), screen_width() or 120, None, arguments.order)))
        return DONE
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _live(ask, arguments)
    while True:
        print("\n".join(frame(ask("overview"), screen_width() or 120, None, arguments.order)))
        print(flush=True)
        sleep(arguments.delay)


def _live(ask: Ask, arguments: argparse.Namespace) -> int:
    overview = ask("overview")
    with _screen():
        while True:
            _draw(overview, arguments.order)
            if _quits(arguments.delay):
                return DONE
            overview = ask("overview")


def _draw(overview: Any, order: str) -> None:
    """In place, so that nothing flickers; the size may have changed since the last frame."""
    size = shutil.get_terminal_size((80, 24))
    lines = frame(overview, max(size.columns, 20), max(size.lines, 5), order)
    sys.stdout.write(_HOME + f"{_REST_OF_LINE}\n".join(lines) + _REST_OF_LINE + _REST_OF_SCREEN)
    sys.stdout.flush()


def _quits(delay_s: float) -> bool:
    """Wait; whether q was pressed meanwhile. Another key only ends the wait."""
    readable, _, _ = select.select([sys.stdin], [], [], delay_s)
    return bool(readable) and sys.stdin.read(1) in {"q", "Q", ""}


@contextmanager
def _screen() -> Iterator[None]:
    """The terminal as a live view needs it; as it was, afterwards, whatever happened."""
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
    summary="watch prices, hosts, VMs and decisions",
    description="""\
`merkatd top`: prices, hosts, VMs and the last decisions, live; q or Ctrl-C ends it.""",
    add_arguments=add_top_arguments,
    run=run_top,
)
