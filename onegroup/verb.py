"""The common parts of the verbs: arguments, calls to the daemon, errors."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path

from merkatd.client import Groups, Merkat, MerkatError, UnreachableError
from merkatd.client.merkat import default_session
from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_parser import (
    NOT_DONE,
    WRONG_WORDS,
    NotDoneError,
    print_failure,
)
from merkatd.commands.terminal.output import ConflictingArgumentsError
from merkatd.commands.terminal.table_columns import shortened
from merkatd.commands.words.ways_out import os_reason

_NO_DAEMON = (
    "check that the daemon runs, and its address, which is from --endpoint, MERKAT_XMLRPC or"
    " ~/.one/merkat_xmlrpc"
)
NAME, BESIDE = "onegroup", "merkat-onegroup"
_PROGRAM: ContextVar[str | None] = ContextVar("program", default=None)


@contextmanager
def running_as(program: str) -> Iterator[None]:
    """Let the verbs name another program: they also belong to `merkat group`."""
    token = _PROGRAM.set(program)
    try:
        yield
    finally:
        _PROGRAM.reset(token)


def named(text: str) -> str:
    """Return a text whose examples have the command's present name."""
    return text.replace(f"    {NAME} ", f"    {program()} ")


def program() -> str:
    """Return the name by which the command was called, if it is one of its names."""
    if (outer := _PROGRAM.get()) is not None:
        return outer
    called = Path(sys.argv[0]).name
    return called if called == BESIDE else NAME


class TemplateArgumentError(Exception):
    """The template can't be read; the message says why."""


def add_endpoint(parser: argparse.ArgumentParser) -> None:
    """Add the option of all verbs that call the daemon."""
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="the daemon's address (default: MERKAT_XMLRPC, else ~/.one/merkat_xmlrpc, else"
        " port 2634 of this machine); ONE_AUTH names the file with the login",
    )
    parser.set_defaults(client=_client)


def _client(arguments: argparse.Namespace) -> AbstractContextManager[Merkat]:
    try:
        return Merkat(arguments.endpoint)
    except OSError as error:
        raise NotDoneError(
            f"{error}: the daemon's address must be like http://SERVER:2634/RPC2; {_NO_DAEMON}"
        ) from None


def add_group(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the group of a verb."""
    parser.add_argument(
        "group", metavar="GROUP", type=command_parser.reference, help="the group's id or name"
    )


def ask_groups(verb: str, arguments: argparse.Namespace, work: Callable[[Groups], int]) -> int:
    """Run the work of a verb with the daemon's groups and return the exit code."""
    try:
        with arguments.client(arguments) as merkat:
            return work(Groups(merkat))
    except ConflictingArgumentsError as error:
        return print_failure(verb, str(error), WRONG_WORDS, program())
    except UnreachableError as error:
        return print_failure(verb, f"{error}; {_NO_DAEMON}", NOT_DONE, program())
    except (MerkatError, NotDoneError, TemplateArgumentError) as error:
        return print_failure(verb, str(error), NOT_DONE, program())
    except BrokenPipeError:
        raise
    except OSError as error:
        return print_failure(verb, os_reason(error), NOT_DONE, program())


def id_of(groups: Groups, word: str) -> int:
    """Return the id of the group with this id or name. Raise NotDoneError.

    Of several groups with the name, return the user's own: others may share groups of any name.
    """
    if word.isascii() and word.isdigit() and len(word) <= 9:
        return int(word)
    named = [group for group in groups.list() if group.name == word]
    if not named:
        raise NotDoneError(f"no group has the name {shortened(word)}")
    if len(named) > 1:
        user = default_session().partition(":")[0]
        named = [group for group in named if group.user == user] or named
    if len(named) > 1:
        some = ", ".join(str(group.id) for group in named[:5])
        raise NotDoneError(f"several groups have the name {shortened(word)}: use an id ({some})")
    return named[0].id
