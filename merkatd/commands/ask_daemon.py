"""Requests to the daemon on its control socket, and the display of its answers."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from merkatd.api.control.control_client import ControlError, DaemonNotRunningError, ask
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
    lines_in_form,
    print_lines,
)
from merkatd.config.socket_path import (
    CONTROL_SOCKET,
    STATE_DIRECTORY,
    configured_socket,
    control_socket,
)

if TYPE_CHECKING:
    from merkatd.config.configuration import Config


INSTALLED = Path("/etc/merkat/merkatd.toml")


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option `--config`."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help=f"the configuration file (default: {INSTALLED} if it exists, else all defaults)",
    )


def read_config(command: str, path: Path | None) -> Config | None:
    """Return the configuration; on problems print them on standard error and return None."""
    # Most commands need only the daemon: a late import makes them start faster.
    from merkatd.config.errors import ConfigError  # noqa: PLC0415

    chosen = path or INSTALLED
    try:
        return loaded(path)
    except ConfigError as error:
        for problem in error.problems:
            print_failure(command, f"{chosen}: {problem}")
    except OSError as error:
        print_failure(command, f"{chosen}: {error.strerror}")
    except ValueError as error:
        print_failure(command, f"{chosen}: {error}")
    return None


def loaded(path: Path | None) -> Config:
    """Return the configuration. Raise ConfigError, OSError or ValueError."""
    from merkatd.config.configuration import Config  # noqa: PLC0415
    from merkatd.config.loader import load  # noqa: PLC0415

    if path is None and not INSTALLED.exists():
        return Config()
    return load(path or INSTALLED)


def daemon_socket(command: str, path: Path | None) -> Path | None:
    """Return the daemon's control socket; None after problems, printed as by `read_config`."""
    if path is None and not INSTALLED.exists():
        return control_socket(STATE_DIRECTORY, CONTROL_SOCKET)
    socket = configured_socket(path or INSTALLED)
    if socket is not None:
        return socket
    config = read_config(command, path)
    return config.control_socket if config else None


Ask = Callable[..., Any]
"""A function that sends a question, by its name and keyword arguments, and returns the answer."""
_STRANGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""Exceptions that an answer in an unexpected format can cause."""


def ask_daemon(command: str, arguments: argparse.Namespace, show: Callable[[Ask], int]) -> int:
    """Run `show` with a connection to the daemon and return the command's exit code."""
    socket = daemon_socket(command, arguments.config)
    return NOT_DONE if socket is None else _shown(command, arguments, socket, show)


def _shown(
    command: str, arguments: argparse.Namespace, socket: Path, show: Callable[[Ask], int]
) -> int:
    def ask_daemon(question: str, **parameters: Any) -> Any:
        given = {name: value for name, value in parameters.items() if value is not None}
        return ask(socket, question, given)

    try:
        code = show(ask_daemon)
    except ConflictingArgumentsError as error:
        return print_failure(command, str(error), WRONG_WORDS)
    except DaemonNotRunningError as error:
        return _nobody(command, arguments, str(error))
    except (ControlError, NotDoneError) as error:
        return print_failure(command, str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        return print_failure(command, f"{error.filename or 'output'}: {error.strerror}")
    except _STRANGE:
        return print_failure(
            command,
            f"the daemon at {socket} answered in an unknown format; use the daemon's own version",
        )
    _print_mode_hint(ask_daemon)
    return code


_NOT_DONE = {
    "dry": "mode dry: decisions are shown, not carried out",
    "shadow": "mode shadow: decisions are compared, not carried out",
}


def _print_mode_hint(ask_daemon: Ask) -> None:
    """Warn on standard error if the mode keeps decisions from being carried out."""
    try:
        now = ask_daemon("mode")
        message = _NOT_DONE.get(now["mode"])
        if now["waiting_plan"] is not None and now["mode"] == "ask":
            message = f"mode ask: plan {int(now['waiting_plan'])} waits (`merkatd plan show`)"
    except (ControlError, OSError, *_STRANGE):
        return  # the command itself succeeded; the daemon may have stopped since
    if message is not None:
        print(f"merkatd: {message}", file=sys.stderr)


def _nobody(command: str, arguments: argparse.Namespace, why: str) -> int:
    """Report that no daemon answers, or the configuration's problems if it has any."""
    sound = read_config(command, arguments.config) is not None
    return print_failure(command, why) if sound else NOT_DONE


def user() -> str:
    """Return the name of the user that runs the command, for the daemon's records."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the system has no name for this user id
        return f"uid {os.getuid()}"


sleep = time.sleep


def add_view(parser: argparse.ArgumentParser, tables: Tables, *, follow: bool = True) -> None:
    """Add the options of every command that shows rows, and `--config`."""
    add_output(parser, tables, follow=follow)
    add_config(parser)


def add_newest(parser: argparse.ArgumentParser) -> None:
    """Add the option `--limit` of commands that show a history."""
    parser.add_argument(
        "--limit",
        metavar="N",
        type=command_parser.count,
        default=50,
        help="show only the newest N (default: 50)",
    )


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

    def show(ask: Ask) -> int:
        columns = chosen_columns(table, arguments)
        filters = chosen_filters(table, arguments)
        if changes and arguments.delay is not None:
            raise ConflictingArgumentsError("--delay would repeat the change: use it only to show")
        while True:
            answer = fetch(ask)
            lines = lines_in_form(
                arguments, table, columns, filters, answer, rows, text, whole=whole
            )
            print_lines(lines, again=arguments.delay is not None)
            if arguments.delay is None:
                return DONE
            sleep(arguments.delay)

    return ask_daemon(command, arguments, show)
