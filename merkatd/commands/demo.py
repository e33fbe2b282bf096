"""`merkatd demo`: watch a cloud of tenants with bids and deadlines divide itself by price.

It runs the daemon on the embedded cloud, in a temporary directory that is removed at the end,
with a cloud's minute in a second. While it runs, all other commands work from a second
terminal with the --config that it shows. It ends by itself, or with Ctrl-C.
"""

import argparse
import math
import sys

from merkatd.commands.reactor import asyncio_reactor
from merkatd.demo.site import Options

SUMMARY = "watch a simulated cloud divide itself by price"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    usual = Options()
    parser.add_argument(
        "--plain",
        action="store_true",
        help="write a log instead of drawing, as is done where the output is no terminal",
    )
    parser.add_argument(
        "--seconds",
        type=_above_zero,
        default=usual.seconds,
        metavar="N",
        help=f"end after so long (default: {usual.seconds:g})",
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=usual.seed,
        metavar="N",
        help=f"another number, another story (default: {usual.seed})",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=usual.speed,
        metavar="N",
        help=f"seconds of the cloud in one of ours, at most {_FASTEST:g}; a period has 60"
        f" (default: {usual.speed:g})",
    )
    parser.add_argument(
        "--hosts",
        type=_hosts,
        default=usual.hosts,
        metavar="N",
        help=f"hosts, and VMs in proportion, at most {_MOST_HOSTS} (default: {usual.hosts})",
    )


def run(arguments: argparse.Namespace) -> int:
    """0 where it ended by itself or with Ctrl-C."""
    reactor = asyncio_reactor()
    from merkatd.demo.show import show  # noqa: PLC0415 - it imports what imports the reactor

    options = Options(
        seconds=arguments.seconds,
        seed=arguments.seed,
        speed=arguments.speed,
        hosts=arguments.hosts,
    )
    return show(reactor, options, sys.stdout, plain=arguments.plain or not sys.stdout.isatty())


_MOST_HOSTS = 40
_LARGEST_SEED = 10**9
_FASTEST = 600.0


def _above_zero(text: str) -> float:
    return _within(text, 0.0, math.inf)


def _speed(text: str) -> float:
    return _within(text, 0.0, _FASTEST)


def _within(text: str, above: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if above < value <= most and value < math.inf:
        return value
    limit = "" if most == math.inf else f" and at most {most:g}"
    raise argparse.ArgumentTypeError(f"{text}: a number above {above:g}{limit} is right")


def _seed(text: str) -> int:
    return _whole(text, 0, _LARGEST_SEED)


def _hosts(text: str) -> int:
    return _whole(text, 1, _MOST_HOSTS)


def _whole(text: str, least: int, most: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if least <= value <= most:
        return value
    raise argparse.ArgumentTypeError(f"{text}: a whole number from {least} to {most} is right")
