"""Questions to a daemon through a door, and the display of its answers.

A door is a way to a daemon: `socket_door` is its control socket, for administrators. The tenants'
command `merkat` has a door of its own, the tenants' XML-RPC interface. Both print the same tables.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from merkatd.commands.terminal import ScreenTable, command_parser
from merkatd.commands.terminal.command_parser import (
    DONE,
    NOT_DONE,
    WRONG_WORDS,
    NotDoneError,
    print_failure,
)
from merkatd.commands.terminal.output import (
    ConflictingArgumentsError,
    Lines,
    Tables,
    add_output,
    chosen_columns,
    chosen_filters,
    empty_note,
    lines_in_form,
    print_lines,
)
from merkatd.commands.words.ways_out import os_reason

Ask = Callable[..., Any]
"""A function that sends a question, by its name and keyword arguments, and returns the answer.

It raises NotDoneError if there is no answer, or if the daemon rejects the question."""


class Door(Protocol):
    """A way to a daemon."""

    @property
    def program(self) -> str:
        """Return the name of the command that uses this door, for messages."""

    @property
    def is_own(self) -> bool:
        """Return whether questions that name no tenant are about the user's own things."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that say where the daemon is."""

    def opened(self, arguments: argparse.Namespace) -> AbstractContextManager[Ask]:
        """Return a connection for these options. Raise NotDoneError."""

    def address(self, arguments: argparse.Namespace) -> str:
        """Return where the daemon is, for messages."""


def door_of(parser: argparse.ArgumentParser) -> Door:
    """Return the door of a command, which its program sets before it adds arguments."""
    door: Door = parser.get_default("door")
    return door


def add_door(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the daemon is."""
    door_of(parser).add_options(parser)


_STRANGE = (
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,
)
"""Exceptions that an answer in an unexpected format can cause."""


def ask_daemon(command: str, arguments: argparse.Namespace, show: Callable[[Ask], int]) -> int:
    """Run `show` with a connection to the daemon and return the command's exit code."""
    door: Door = arguments.door
    try:
        with door.opened(arguments) as ask:
            code = show(ask)
            _print_mode_hint(ask, door.program)
    except ConflictingArgumentsError as error:
        return print_failure(command, str(error), WRONG_WORDS, door.program)
    except NotDoneError as error:
        for reason in error.reasons:
            print_failure(command, reason, NOT_DONE, door.program)
        return NOT_DONE
    except BrokenPipeError:
        raise
    except OSError as error:
        return print_failure(command, os_reason(error), NOT_DONE, door.program)
    except _STRANGE:
        return print_failure(
            command,
            f"the daemon at {door.address(arguments)} answered in an unknown format; use the"
            " daemon's own version",
            NOT_DONE,
            door.program,
        )
    return code


_NOT_DONE = {
    "dry": "mode dry: decisions are shown, not carried out",
    "shadow": "mode shadow: decisions are compared, not carried out",
}


def _print_mode_hint(ask: Ask, program: str) -> None:
    """Warn on standard error if the mode keeps decisions from being carried out."""
    try:
        now = ask("mode")
        message = _NOT_DONE.get(now["mode"])
        if now["waiting_plan"] is not None and now["mode"] == "ask":
            message = f"mode ask: plan {int(now['waiting_plan'])} waits (`merkatd plan show`)"
    except (NotDoneError, OSError, *_STRANGE):
        return  # the command itself succeeded; the daemon may have stopped since
    if message is not None:
        print(f"{program}: {message}", file=sys.stderr)


def user() -> str:
    """Return the name of the user that runs the command, for the daemon's records."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the system has no name for this user id
        return f"uid {os.getuid()}"


sleep = time.sleep


def add_view(parser: argparse.ArgumentParser, tables: Tables, *, follow: bool = True) -> None:
    """Add the options of every command that shows rows, and those of its door."""
    add_output(parser, tables, follow=follow)
    add_door(parser)


def add_newest(parser: argparse.ArgumentParser) -> None:
    """Add the option `--limit` of commands that show a history."""
    parser.add_argument(
        "--limit",
        metavar="N",
        type=command_parser.count,
        default=50,
        help="show only the newest N (default: 50)",
    )


def _named(text: Lines, program: str) -> Lines:
    """Return the function with the program's own name in the commands that it quotes."""
    return lambda answer, cells: [
        line.replace("`merkatd ", f"`{program} ") for line in text(answer, cells)
    ]


def show_view(
    command: str,
    arguments: argparse.Namespace,
    table: ScreenTable,
    fetch: Callable[[Ask], Any],
    *,
    rows: Callable[[Any], Any] = lambda answer: answer,
    text: Lines | None = None,
    whole: bool = False,
    changes: bool = False,
) -> int:
    """Fetch and show an answer, once or repeatedly (`--delay`), and return the exit code.

    With `changes`, the question changes something: it is asked once, and `--delay` is refused.

    `rows` extracts the table's rows from an answer. `text` writes the output on a screen unless
    columns are chosen. With `whole`, JSON without chosen columns is the daemon's answer, unchanged.
    """
    written = None if text is None else _named(text, arguments.door.program)

    def show(ask: Ask) -> int:
        columns = chosen_columns(table, arguments)
        filters = chosen_filters(table, arguments)
        if changes and arguments.delay is not None:
            raise ConflictingArgumentsError("--delay would repeat the change: use it only to show")
        while True:
            answer = fetch(ask)
            lines = lines_in_form(
                arguments, table, columns, filters, answer, rows, written, whole=whole
            )
            print_lines(lines, again=arguments.delay is not None, pager=not arguments.no_pager)
            program = arguments.door.program
            note = empty_note(arguments, table, filters, rows(answer), program)
            if note:
                print(f"{program}: {note}", file=sys.stderr)
            if arguments.delay is None:
                return DONE
            sleep(arguments.delay)

    return ask_daemon(command, arguments, show)
