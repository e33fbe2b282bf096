"""`onegroup manual` and `completion`, from the words that the command really takes."""

import argparse

from merkatd.commands.complaints import DONE, WRONG_WORDS, complain
from merkatd.commands.roff import page
from merkatd.commands.scripts import SHELLS
from merkatd.commands.table.columns import short
from merkatd.commands.words_of import words_of
from onegroup.asking import Verb
from onegroup.program import program

_MANUAL = """\
Print the manual page of a verb, or of the command, as roff.

    onegroup manual create | man -l -
"""
_COMPLETION = """\
Print a script that completes verbs, options, columns and groups in your shell.

    onegroup completion bash > ~/.local/share/bash-completion/completions/onegroup
"""


def _add_manual(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", metavar="VERB", nargs="?", help="without one: the command itself")


def _manual(arguments: argparse.Namespace) -> int:
    all_words = words_of(arguments.parser())
    known = sorted(command.name for command in all_words.commands)
    if arguments.verb is not None and arguments.verb not in known:
        why = f"no verb is called {short(arguments.verb)}; there are: {', '.join(known)}"
        return complain("manual", why, WRONG_WORDS, program())
    print("\n".join(page(all_words, arguments.verb)))
    return DONE


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", choices=tuple(SHELLS), help=f"one of {', '.join(SHELLS)}"
    )


def _completion(arguments: argparse.Namespace) -> int:
    print("\n".join(SHELLS[arguments.shell](words_of(arguments.parser()))))
    return DONE


MANUAL = Verb("manual", "print a manual page", _MANUAL, _add_manual, _manual)
COMPLETION = Verb(
    "completion",
    "print a script that completes words in bash or zsh",
    _COMPLETION,
    _add_completion,
    _completion,
)
