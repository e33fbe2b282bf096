"""The command `merkatd`: finds the subcommand, hands it its arguments, returns its exit code.

Exit codes: 0 done; 1 it could not be done, standard error says why; 2 the words of the
command were wrong.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from merkatd.commands import check, embedded, plan, run, status

COMMANDS = {"run": run, "check": check, "status": status, "plan": plan, "embedded": embedded}


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="merkatd", description="Shares a private cloud between tenants by price."
    )
    top.add_argument("--version", action="version", version=f"merkatd {metadata.version('merkat')}")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.SUMMARY, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; what it returns is the process's exit code."""
    parsed = parser().parse_args(arguments)
    try:
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
