"""The command `merkatd`: finds the subcommand, hands it its arguments, returns its exit code.

Exit codes: 0 done; 1 it could not be done, standard error says why; 2 the words of the
command were wrong; 130 it was interrupted.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from merkatd.commands import (
    bid,
    budget,
    check,
    completion,
    demo,
    driver,
    embedded,
    explain,
    host,
    limits,
    lists,
    log,
    manual,
    pause,
    plan,
    platform,
    price,
    quote,
    release,
    resume,
    run,
    snapshot,
    statement,
    status,
    tenant,
    top,
)
from merkatd.commands.parsers import Parser

COMMANDS = {
    "run": run,
    "check": check,
    "demo": demo,
    "status": status,
    "top": top,
    "list": lists,
    "explain": explain,
    "price": price,
    "bid": bid,
    "tenant": tenant,
    "budget": budget,
    "statement": statement,
    "quote": quote,
    "log": log,
    "plan": plan,
    "platform": platform,
    "host": host,
    "pause": pause,
    "resume": resume,
    "limits": limits,
    "release": release,
    "snapshot": snapshot,
    "driver": driver,
    "embedded": embedded,
    "completion": completion,
    "manual": manual,
}


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top_level = Parser(
        prog="merkatd",
        description="Shares a private cloud between tenants by price.",
        epilog="Exit codes: 0 done; 1 it could not be done; 2 the words were wrong; 130"
        " interrupted. `merkatd manual COMMAND | man -l -` shows the manual page of a command.",
        allow_abbrev=False,
    )
    version = f"merkatd {metadata.version('merkat')}"
    top_level.add_argument("--version", action="version", version=version)
    commands = top_level.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(
            name, help=module.SUMMARY, description=module.__doc__, allow_abbrev=False
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run, summary=module.SUMMARY, parser=parser)
    return top_level


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what it returns is the process's exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal may know fewer characters than we
    try:
        parsed = parser().parse_args(arguments)
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
