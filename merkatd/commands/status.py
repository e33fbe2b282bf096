"""`merkatd status`: how the running daemon is, and its prices."""

import argparse
import json
import sys

from merkatd.api.control import ControlError, ask
from merkatd.commands.configured import add_config, read_config

SUMMARY = "show how the running daemon is, and its prices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print the answer as it came")


def run(arguments: argparse.Namespace) -> int:
    """Ask the daemon on its control socket."""
    config = read_config("status", arguments.config)
    if config is None:
        return 1
    try:
        status = ask(config.control_socket, "status")
    except ControlError as error:
        print(f"merkatd status: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(status, indent=2))
        return 0
    for name, value in status.items():
        if name != "prices":
            print(f"{name.replace('_', ' '):18} {value}")
    for market, prices in (status["prices"] or {}).items():
        for resource, price in prices.items():
            print(f"{'price of ' + resource:18} {price} in market {market}")
    return 0
