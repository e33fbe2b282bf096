"""The command `merkat`: it finds the subcommand, passes the arguments on, returns its exit code.

Exit codes: 0 success; 1 failure, with the reason on standard error; 2 invalid arguments;
130 interrupted.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from importlib import import_module, metadata

from merkat.rpc_door import RPC_DOOR
from merkatd.commands.screens.program_run import run_program
from merkatd.commands.terminal.command_parser import Parser
from merkatd.commands.terminal.command_verb import Verb

_PLACES = {
    "price": "merkatd.commands.market_commands.PRICE",
    "quote": "merkatd.commands.market_commands.QUOTE",
    "vm": "merkat.vm_verb.VM",
    "bid": "merkatd.commands.market_commands.BID",
    "explain": "merkatd.commands.vm_commands.EXPLAIN",
    "list": "merkatd.commands.list_command.LIST",
    "top": "merkatd.commands.status_commands.TOP",
    "log": "merkatd.commands.history_commands.LOG",
    "budget": "merkatd.commands.money_commands.BUDGET",
    "statement": "merkatd.commands.statement_command.STATEMENT",
    "share": "merkatd.commands.reports.tenant_commands.SHARE",
    "report": "merkatd.commands.reports.tenant_commands.REPORT",
    "order": "merkatd.commands.order_command.ORDER",
    "platform": "merkat.platform_verb.TENANT_PLATFORM",
    "group": "merkat.group_verb.GROUP",
    "completion": "merkatd.commands.programs.help_commands.COMPLETION",
    "manual": "merkatd.commands.programs.help_commands.MANUAL",
}
"""The place of each verb; only the module of the requested verb is imported."""
COMMANDS = tuple(_PLACES)
_DAEMON = re.compile(r"(?<![A-Za-z])merkatd\b")
_PACKAGES = ("merkat-client", "merkat")
"""The packages that contain this command: the tenants' own, and the whole Merkat."""


def _verb(name: str) -> Verb:
    module, _, constant = _PLACES[name].rpartition(".")
    verb: Verb = getattr(import_module(module), constant)
    return verb


def _version() -> str:
    for package in _PACKAGES:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return a parser for these commands and their options; a parser for few loads faster."""
    top_level = Parser(
        prog=RPC_DOOR.program,
        description="See prices, bid for VMs, and follow your credits in a private cloud.",
        epilog="Exit codes: 0 success; 1 failure; 2 invalid arguments; 130 interrupted."
        " `merkat manual COMMAND | man -l -` shows the manual page of a command.",
        allow_abbrev=False,
    )
    top_level.add_argument("--version", action="version", version=f"merkat {_version()}")
    commands = top_level.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        verb = _verb(name)
        command = commands.add_parser(
            name,
            help=verb.summary,
            description=_DAEMON.sub(RPC_DOOR.program, verb.description),
            allow_abbrev=False,
        )
        command.set_defaults(door=RPC_DOOR)
        verb.add_arguments(command)
        command.set_defaults(run=verb.run, summary=verb.summary, parser=parser)
    return top_level


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code of the process."""
    words = sys.argv[1:] if arguments is None else arguments
    known = tuple(words[:1]) if words and words[0] in COMMANDS else COMMANDS

    def work() -> int:
        parsed = parser(known).parse_args(words)
        code: int = parsed.run(parsed)
        return code

    return run_program(RPC_DOOR.program, work)
