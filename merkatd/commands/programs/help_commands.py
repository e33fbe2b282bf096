"""Commands that print shell completion and manual pages: `completion`, `manual`."""

import argparse

from merkatd.commands.terminal.command_model import model_of
from merkatd.commands.terminal.command_parser import WRONG_WORDS, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.completion_scripts import SHELLS, completion_script
from merkatd.commands.terminal.manual_pages import page
from merkatd.commands.terminal.table_columns import shortened
from merkatd.commands.words.suggestions import hint


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `completion`."""
    parser.add_argument(
        "shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}"
    )


def run_completion(arguments: argparse.Namespace) -> int:
    """Print the completion script."""
    print(completion_script(arguments.parser(), arguments.shell))
    return 0


COMPLETION = Verb(
    "completion",
    summary="print a completion script for bash or zsh",
    description="""\
`merkatd completion`: print a script that completes commands, options and names in your shell.

    merkatd completion bash > ~/.local/share/bash-completion/completions/merkatd
    merkatd completion zsh > ~/.zfunc/_merkatd

The script asks the daemon of the default configuration for the names of VMs and hosts.
""",
    add_arguments=add_completion_arguments,
    run=run_completion,
)


def add_manual_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `manual`."""
    parser.add_argument(
        "command", metavar="COMMAND", nargs="?", help="the command (default: the program itself)"
    )


def run_manual(arguments: argparse.Namespace) -> int:
    """Print the manual page."""
    program = model_of(arguments.parser())
    wanted = arguments.command
    known = {command.name for command in program.commands}
    if wanted is not None and wanted not in known:
        why = f"unknown command {shortened(wanted)}; {hint(wanted, sorted(known))}"
        return print_failure("manual", why, WRONG_WORDS, arguments.door.program)
    print("\n".join(page(program, wanted)))
    return 0


MANUAL = Verb(
    "manual",
    summary="print the manual page of a command, as roff",
    description="""\
`merkatd manual`: print the manual page of a command, or of merkatd itself.

merkatd manual explain | man -l -
""",
    add_arguments=add_manual_arguments,
    run=run_manual,
)
