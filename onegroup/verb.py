"""What verbs have in common."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from merkatd.client import Groups, Merkat, MerkatError
from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_parser import NOT_DONE, WRONG_WORDS, NotDoneError, complain
from merkatd.commands.terminal.output import WordsError
from merkatd.commands.terminal.table_columns import shortened

NAME, BESIDE = "onegroup", "merkat-onegroup"


def named(text: str) -> str:
    """A text with examples, in which the command has the name that it was called by."""
    return text.replace(f"    {NAME} ", f"    {program()} ")


def program() -> str:
    """The name that it was called by, as far as it is one of its own."""
    called = Path(sys.argv[0]).name
    return called if called == BESIDE else NAME


class TemplateArgumentError(Exception):
    """There is no such template; the message says what would be right."""


def add_endpoint(parser: argparse.ArgumentParser) -> None:
    """The option of all verbs that ask the daemon."""
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="where the daemon answers (default: MERKAT_XMLRPC, else ~/.one/merkat_xmlrpc, else"
        " port 2634 of this machine); the login is the one that ONE_AUTH names",
    )


def add_group(parser: argparse.ArgumentParser) -> None:
    """The word that most verbs are about."""
    parser.add_argument(
        "group", metavar="GROUP", type=command_parser.reference, help="its id or its name"
    )


def ask_groups(verb: str, arguments: argparse.Namespace, work: Callable[[Groups], int]) -> int:
    """The exit code of a verb that asks the daemon."""
    try:
        with Merkat(arguments.endpoint) as merkat:
            return work(Groups(merkat))
    except WordsError as error:
        return complain(verb, str(error), WRONG_WORDS, program())
    except (MerkatError, NotDoneError, TemplateArgumentError) as error:
        return complain(verb, str(error), NOT_DONE, program())
    except BrokenPipeError:
        raise
    except OSError as error:
        why = f"{error.filename or 'output'}: {error.strerror}"
        return complain(verb, why, NOT_DONE, program())


def id_of(groups: Groups, word: str) -> int:
    """The id of the group that is meant, by id or by name. Raises NotDoneError."""
    if word.isascii() and word.isdigit() and len(word) <= 9:
        return int(word)
    named = [one.id for one in groups.list() if one.name == word]
    if len(named) != 1:
        there = ", ".join(map(str, named[:5])) if named else "none"
        raise NotDoneError(f"which group is {shortened(word)}? By that name there is {there}")
    return named[0]
