"""The command `demo`: a cloud whose tenants' bids and deadlines divide it by price."""

import argparse
import math
import os
import sys
from dataclasses import replace

from merkatd.base.clock import asyncio_reactor
from merkatd.commands.programs.strategy_files import (
    StrategyFileError,
    names_or_files,
    strategy_of,
)
from merkatd.commands.terminal.command_verb import Verb
from merkatd.demo.demo_options import DemoOptions, of_this_machine
from merkatd.demo.screen.terminal_colours import is_able_to_draw
from merkatd.placement import STRATEGIES


def add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `demo`."""
    usual = DemoOptions()
    parser.add_argument(
        "--plain",
        action="store_true",
        help="write a log instead of drawing; the default if the output is not a terminal",
    )
    parser.add_argument(
        "--seconds",
        type=_above_zero,
        default=usual.seconds,
        metavar="N",
        help="end after N seconds, without the start; on a machine that is too slow for the speed,"
        f" they last longer (default: {usual.seconds:g})",
    )
    parser.add_argument(
        "--seed",
        type=_seed,
        default=usual.seed,
        metavar="N",
        help=f"seed of the random events (default: {usual.seed})",
    )
    parser.add_argument(
        "--speed",
        type=_speed,
        default=usual.speed,
        metavar="N",
        help=f"simulated seconds per real second, at most {_FASTEST:g}; a period has 60 simulated"
        f" seconds (default: {usual.speed:g})",
    )
    parser.add_argument(
        "--hosts",
        type=_hosts,
        default=usual.hosts,
        metavar="N",
        help=f"number of hosts, at most {_MOST_HOSTS}; VMs grow in proportion (default:"
        f" {usual.hosts})",
    )
    parser.add_argument(
        "--strategy",
        choices=names_or_files(),
        default=usual.strategy,
        metavar="NAME|FILE.py",
        help=f"the strategy that places the VMs: one of {', '.join(STRATEGIES)}, or a file of"
        f" Python with a new one (default: {usual.strategy})",
    )
    parser.add_argument(
        "--hypervisor",
        choices=("embedded", "libvirt"),
        default="embedded",
        help="embedded: simulated hosts; libvirt: real guests, with this machine as the only host"
        " (default: embedded)",
    )


def run_demo(arguments: argparse.Namespace) -> int:
    """Run the demo; return 0 if it ended by itself or with Ctrl-C."""
    plain = arguments.plain or not sys.stdout.isatty() or not is_able_to_draw(os.environ)
    sys.stdout.write(_INTRODUCTION)
    sys.stdout.flush()
    reactor = asyncio_reactor()
    # These modules import the reactor, so it must be installed first.
    from merkatd.demo.demo_program import show  # noqa: PLC0415
    from merkatd.demo.real_guests import GuestsError  # noqa: PLC0415

    try:
        options = _options(arguments)
    except (GuestsError, StrategyFileError) as error:
        sys.stderr.write(f"merkatd demo: {error}\n")
        return 1
    return show(reactor, options, sys.stdout, plain=plain)


_INTRODUCTION = """\
Merkat's demo: tenants bid for the CPU and memory of a simulated cloud. Once in a simulated minute
Merkat computes prices and shares from the bids, and places the VMs.
Loading the program, which takes a few seconds ...
"""
"""The first lines, written before the imports that take time."""


def _options(arguments: argparse.Namespace) -> DemoOptions:
    """Return the options. Raise GuestsError or StrategyFileError if they are impossible."""
    options = DemoOptions(
        seconds=arguments.seconds,
        seed=arguments.seed,
        speed=arguments.speed,
        hosts=arguments.hosts,
        strategy=strategy_of(arguments.strategy),
    )
    if arguments.hypervisor == "embedded":
        return options
    from merkatd.demo.real_guests import kind_here  # noqa: PLC0415 - as above

    minute_s = 60.0 / options.speed
    scale = of_this_machine(kind_here(), os.cpu_count() or 1, minute_s)
    return replace(options, hosts=1, scale=scale)


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
    raise argparse.ArgumentTypeError(f"{text}: expected a number above {above:g}{limit}")


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
    raise argparse.ArgumentTypeError(f"{text}: expected a whole number from {least} to {most}")


DEMO = Verb(
    "demo",
    summary="watch tenants divide a simulated cloud by price",
    description="""\
`merkatd demo`: watch tenants with bids and deadlines divide a cloud by price.

The demo runs the daemon on the embedded cloud, in a temporary directory that it removes at the end.
A simulated minute takes a second; on a machine that is too slow for that, the simulated time waits
for the daemon. While the demo runs, all other commands work from a second
terminal with the --config that it shows. It ends by itself, with Ctrl-C,
or when the program that started it ends, unless that was nohup or setsid.

With --hypervisor libvirt, this machine is the cloud's only host: real guests run on its libvirtd,
and the tenants' bids slow them down and speed them up. The guests end with the demo.
""",
    add_arguments=add_demo_arguments,
    run=run_demo,
)
