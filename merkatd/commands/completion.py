"""`merkatd completion`: a script that completes commands, options and names in your shell.

    merkatd completion bash > ~/.local/share/bash-completion/completions/merkatd
    merkatd completion zsh > ~/.zfunc/_merkatd

Names of VMs and hosts are asked of the daemon that the usual configuration names.
"""

import argparse

from merkatd.commands.scripts import SHELLS
from merkatd.commands.words_of import words_of

SUMMARY = "print a script that completes words in bash or zsh"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "shell", metavar="SHELL", choices=tuple(SHELLS), help=f"one of {', '.join(SHELLS)}"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    print("\n".join(SHELLS[arguments.shell](words_of(arguments.parser()))))
    return 0
