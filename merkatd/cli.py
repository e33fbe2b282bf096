"""The command `merkatd`: it finds the subcommand, passes the arguments on, returns its exit code.

Exit codes: 0 success; 1 failure, with the reason on standard error; 2 invalid arguments;
78 `merkatd run` found mistakes in the configuration; 130 interrupted.
"""

import argparse
import gc
import sys
from collections.abc import Sequence
from importlib import import_module, metadata

from merkatd.commands.screens.program_run import run_program
from merkatd.commands.socket_door import SOCKET_DOOR
from merkatd.commands.terminal.command_parser import Parser
from merkatd.commands.terminal.command_verb import Verb

_PLACES = {
    "run": "programs.run_command",
    "check": "programs.setup_commands",
    "demo": "programs.demo_command",
    "status": "status_commands",
    "top": "status_commands",
    "list": "list_command",
    "explain": "vm_commands",
    "price": "market_commands",
    "bid": "market_commands",
    "order": "order_command",
    "tenant": "money_commands",
    "budget": "money_commands",
    "statement": "statement_command",
    "share": "reports.tenant_commands",
    "report": "reports.tenant_commands",
    "quote": "market_commands",
    "capacity": "reports.capacity_command",
    "log": "history_commands",
    "plan": "decisions.plan_commands",
    "whatif": "reports.whatif_command",
    "mode": "control_commands",
    "shadow": "history_commands",
    "platform": "platform_command",
    "host": "decisions.host_command",
    "pause": "control_commands",
    "resume": "control_commands",
    "limits": "reports.limits_command",
    "release": "control_commands",
    "snapshot": "decisions.saved_snapshots",
    "strategy": "decisions.strategy_commands",
    "driver": "programs.setup_commands",
    "embedded": "programs.embedded_command",
    "experiment": "programs.experiment_command",
    "completion": "programs.help_commands",
    "manual": "programs.help_commands",
}
"""The module of each verb; only the module of the requested verb is imported."""
COMMANDS = tuple(_PLACES)


def _verb(name: str) -> Verb:
    verb: Verb = getattr(import_module(f"merkatd.commands.{_PLACES[name]}"), name.upper())
    return verb


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return a parser for these commands and their options; a parser for few loads faster."""
    top_level = Parser(
        prog="merkatd",
        description="Divide the resources of a private cloud between tenants by price.",
        epilog="Exit codes: 0 success; 1 failure; 2 invalid arguments; 78 `merkatd run` found"
        " mistakes in the configuration; 130 interrupted. `merkatd manual COMMAND | man -l -`"
        " shows the manual page of a command.",
        allow_abbrev=False,
    )
    version = f"merkatd {metadata.version('merkat')}"
    top_level.add_argument("--version", action="version", version=version)
    commands = top_level.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        verb = _verb(name)
        command = commands.add_parser(
            name, help=verb.summary, description=verb.description, allow_abbrev=False
        )
        command.set_defaults(door=SOCKET_DOOR)
        verb.add_arguments(command)
        command.set_defaults(run=verb.run, summary=verb.summary, parser=parser)
    return top_level


def _commands_for(words: Sequence[str]) -> Sequence[str]:
    """Return the commands that the parser must know to parse these arguments."""
    if not words:
        return COMMANDS
    if words[0] == "--version":
        return ()
    return words[:1] if words[0] in COMMANDS else COMMANDS


def _parse(words: Sequence[str]) -> argparse.Namespace:
    return parser(_commands_for(words)).parse_args(words)


def _parse_program() -> argparse.Namespace:
    """Parse the arguments of this process, with all imports, in an eighth less time.

    Imported modules stay in memory, so garbage collections would examine them in vain.
    """
    gc.disable()
    try:
        return _parse(sys.argv[1:])
    finally:
        gc.freeze()
        gc.enable()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code of the process."""

    def work() -> int:
        parsed = _parse_program() if arguments is None else _parse(arguments)
        code: int = parsed.run(parsed)
        return code

    return run_program("merkatd", work)


if __name__ == "__main__":
    sys.exit(main())
