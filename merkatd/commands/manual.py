"""`merkatd manual`: the manual page of a command, or of all of them together."""

import argparse

from merkatd.commands.complaints import WRONG_WORDS, complain
from merkatd.commands.roff import page
from merkatd.commands.table.columns import short
from merkatd.commands.verb import Verb
from merkatd.commands.words_of import words_of


def add_manual_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "command", metavar="COMMAND", nargs="?", help="the command; without one: merkatd itself"
    )


def run_manual(arguments: argparse.Namespace) -> int:
    """Print it."""
    program = words_of(arguments.parser())
    wanted = arguments.command
    known = {command.name for command in program.commands}
    if wanted is not None and wanted not in known:
        there = ", ".join(sorted(known))
        why = f"no command is called {short(wanted)}; there are: {there}"
        return complain("manual", why, WRONG_WORDS)
    print("\n".join(page(program, wanted)))
    return 0


MANUAL = Verb(
    "manual",
    summary="print the manual page of a command, as roff",
    description="""\
`merkatd manual`: the manual page of a command, or of all of them together.

merkatd manual explain | man -l -
""",
    add_arguments=add_manual_arguments,
    run=run_manual,
)
