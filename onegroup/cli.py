"""The command line of `onegroup`: it runs the verb and returns its exit code.

Exit codes: 0 done; 1 not done, standard error says why; 2 the command's words were wrong;
130 interrupted.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import metadata

from merkatd.commands.screens.program_run import run_program
from merkatd.commands.terminal.command_parser import WRONG_WORDS, Parser, print_failure
from onegroup import create_verb, edit_verbs, help_verbs, show_verbs
from onegroup.verb import named, program

_VERBS = (
    create_verb.CREATE,
    show_verbs.LIST,
    show_verbs.SHOW,
    show_verbs.WATCH,
    edit_verbs.EDIT,
    edit_verbs.DELETE,
    edit_verbs.RENAME,
    edit_verbs.CHMOD,
    edit_verbs.CHOWN,
    edit_verbs.CHGRP,
    help_verbs.MANUAL,
    help_verbs.COMPLETION,
)
VERBS = {verb.name: verb for verb in _VERBS}


def parser() -> argparse.ArgumentParser:
    """Return the parser of all verbs and their options."""
    top = Parser(
        prog=program(),
        description="Groups of VMs that share a spending rate.",
        epilog="OpenNebula has a command of the same name, for its groups of users: the page"
        " docs/onegroup.md explains how to install both on a machine."
        f" `{program()} manual VERB | man -l -` shows the manual page of a verb.",
        allow_abbrev=False,
    )
    version = f"{program()} {metadata.version('merkat')}"
    top.add_argument("--version", action="version", version=version)
    verbs = top.add_subparsers(metavar="VERB", required=True)
    for verb in VERBS.values():
        summary = f"{verb.summary[0].upper()}{verb.summary[1:]}."
        command = verbs.add_parser(
            verb.name,
            help=verb.summary,
            description=named(verb.description or summary),
            allow_abbrev=False,
        )
        verb.add_arguments(command)
        command.set_defaults(run=verb.run, summary=verb.summary, parser=parser)
    return top


def verb_first(words: Sequence[str]) -> list[str]:
    """Return the words with the verb before its options; in the paper, it follows them."""
    if not words or not words[0].startswith("-"):
        return list(words)
    at = next((at for at, word in enumerate(words) if word in VERBS), None)
    return list(words) if at is None else [words[at], *words[:at], *words[at + 1 :]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the process's exit code."""
    words = verb_first(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        if words and words[0] in help_verbs.VERBS:
            return print_failure(words[0], help_verbs.answer(words[0]), WRONG_WORDS, program())
        parsed = parser().parse_args(words)
        code: int = parsed.run(parsed)
        return code

    return run_program(program(), work)
