"""The verbs `manual` and `completion`, and hints for OpenNebula's verbs."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from merkatd.commands.terminal.command_model import model_of
from merkatd.commands.terminal.command_parser import DONE, WRONG_WORDS, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.completion_scripts import SHELLS, completion_script
from merkatd.commands.terminal.manual_pages import page
from merkatd.commands.terminal.table_columns import shortened
from merkatd.commands.words.suggestions import hint
from onegroup.verb import NAME, program

_LONGEST_LINE = 256
VERBS = frozenset(
    {
        "addadmin",
        "addmember",
        "batchquota",
        "defaultquota",
        "deladmin",
        "delmember",
        "quota",
        "resources",
        "update",
    }
)
"""The verbs of OpenNebula's onegroup that this command does not have."""


def opennebulas_onegroup(environment: Mapping[str, str] = os.environ) -> str:
    """Return the path of OpenNebula's command: the first Ruby program of its name in the PATH."""
    for folder in environment.get("PATH", "").split(os.pathsep):
        path = Path(folder) / NAME
        if folder and _is_opennebulas(path):
            return str(path)
    return "OpenNebula's own onegroup"


def _is_opennebulas(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"ruby" in file.readline(_LONGEST_LINE)
    except OSError:
        return False


def answer(verb: str) -> str:
    """Return the hint for a verb of OpenNebula's command."""
    return (
        f"{verb} is a verb for OpenNebula's groups of users; this command manages groups of VMs"
        f" that share a spending rate. For groups of users, run {opennebulas_onegroup()} {verb}"
    )


_MANUAL = """\
Print the manual page of a verb, or of the command, as roff.

    onegroup manual create | man -l -
"""
_COMPLETION = """\
Print a script that completes verbs, options, columns and groups in your shell.

    onegroup completion bash > ~/.local/share/bash-completion/completions/onegroup
"""


def _add_manual(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", metavar="VERB", nargs="?", help="the verb (default: the command)")


def _manual(arguments: argparse.Namespace) -> int:
    all_words = model_of(arguments.parser())
    known = sorted(command.name for command in all_words.commands)
    if arguments.verb is not None and arguments.verb not in known:
        why = f"unknown verb {shortened(arguments.verb)}; {hint(arguments.verb, known)}"
        return print_failure("manual", why, WRONG_WORDS, program())
    print("\n".join(page(all_words, arguments.verb)))
    return DONE


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}"
    )


def _completion(arguments: argparse.Namespace) -> int:
    print(completion_script(arguments.parser(), arguments.shell))
    return DONE


MANUAL = Verb("manual", "print a manual page", _MANUAL, _add_manual, _manual)
COMPLETION = Verb(
    "completion",
    "print a script that completes words in bash or zsh",
    _COMPLETION,
    _add_completion,
    _completion,
)
