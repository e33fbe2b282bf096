"""`merkatd completion`: a script that completes commands, options and names in your shell."""

import argparse

from merkatd.commands.scripts import SHELLS
from merkatd.commands.verb import Verb
from merkatd.commands.words_of import words_of


def add_completion_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "shell", metavar="SHELL", choices=tuple(SHELLS), help=f"one of {', '.join(SHELLS)}"
    )


def run_completion(arguments: argparse.Namespace) -> int:
    """Print it."""
    print("\n".join(SHELLS[arguments.shell](words_of(arguments.parser()))))
    return 0


COMPLETION = Verb(
    "completion",
    summary="print a script that completes words in bash or zsh",
    description="""\
`merkatd completion`: a script that completes commands, options and names in your shell.

    merkatd completion bash > ~/.local/share/bash-completion/completions/merkatd
    merkatd completion zsh > ~/.zfunc/_merkatd

Names of VMs and hosts are asked of the daemon that the usual configuration names.
""",
    add_arguments=add_completion_arguments,
    run=run_completion,
)
