"""The command `merkatd`: finds the subcommand, hands it its arguments, returns its exit code.

Exit codes: 0 done; 1 it could not be done, standard error says why; 2 the words of the
command were wrong; 78 `merkatd run` was given a configuration with mistakes; 130 it was
interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module, metadata

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
    "tenant": "money_commands",
    "budget": "money_commands",
    "statement": "statement_command",
    "quote": "market_commands",
    "log": "history_commands",
    "plan": "plan_commands",
    "mode": "control_commands",
    "shadow": "history_commands",
    "platform": "platform_command",
    "host": "control_commands",
    "pause": "control_commands",
    "resume": "control_commands",
    "limits": "vm_commands",
    "release": "control_commands",
    "snapshot": "plan_commands",
    "driver": "programs.setup_commands",
    "embedded": "programs.embedded_command",
    "experiment": "programs.experiment_command",
    "completion": "programs.help_commands",
    "manual": "programs.help_commands",
}
"""Where each verb stands: only the modules of those that are asked for are imported."""
COMMANDS = tuple(_PLACES)


def _verb(name: str) -> Verb:
    found: Verb = getattr(import_module(f"merkatd.commands.{_PLACES[name]}"), name.upper())
    return found


def parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """All commands and their options, or some: a command alone is there at once."""
    top_level = Parser(
        prog="merkatd",
        description="Shares a private cloud between tenants by price.",
        epilog="Exit codes: 0 done; 1 it could not be done; 2 the words were wrong; 78 the"
        " configuration of run has mistakes; 130 interrupted. `merkatd manual COMMAND | man -l -`"
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
        verb.add_arguments(command)
        command.set_defaults(run=verb.run, summary=verb.summary, parser=parser)
    return top_level


def _needed(words: Sequence[str]) -> Sequence[str]:
    """The commands that must be known to understand these words."""
    if not words:
        return COMMANDS
    if words[0] == "--version":
        return ()
    return words[:1] if words[0] in COMMANDS else COMMANDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what it returns is the process's exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal may know fewer characters than we
    try:
        words = sys.argv[1:] if arguments is None else arguments
        parsed = parser(_needed(words)).parse_args(words)
        code: int = parsed.run(parsed)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    return code


if __name__ == "__main__":
    sys.exit(main())
