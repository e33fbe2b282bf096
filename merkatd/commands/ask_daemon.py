"""The daemon asked and its answer shown, once or again and again."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from merkatd.api.control.control_client import ControlError, NobodyError, ask
from merkatd.commands.terminal import ScreenTable, command_parser
from merkatd.commands.terminal.command_parser import (
    DONE,
    NOT_DONE,
    WRONG_WORDS,
    NotDoneError,
    complain,
)
from merkatd.commands.terminal.output import (
    Lines,
    Tables,
    WordsError,
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
    """The option that names the configuration."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help=f"the configuration (default: {INSTALLED} where it exists, else all defaults)",
    )


def read_config(command: str, path: Path | None) -> Config | None:
    """The configuration; None where there are problems, which stand on standard error then."""
    # Most commands ask the daemon and are done before this would be imported.
    from merkatd.config.errors import ConfigError  # noqa: PLC0415

    chosen = path or INSTALLED
    try:
        return loaded(path)
    except ConfigError as error:
        for problem in error.problems:
            complain(command, f"{chosen}: {problem}")
    except OSError as error:
        complain(command, f"{chosen}: {error.strerror}")
    except ValueError as error:
        complain(command, f"{chosen}: {error}")
    return None


def loaded(path: Path | None) -> Config:
    """The configuration. Raises ConfigError, OSError and ValueError."""
    from merkatd.config.configuration import Config  # noqa: PLC0415
    from merkatd.config.loader import load  # noqa: PLC0415

    if path is None and not INSTALLED.exists():
        return Config()
    return load(path or INSTALLED)


def daemon_socket(command: str, path: Path | None) -> Path | None:
    """Where the daemon is asked; None where the configuration has problems, told as above."""
    if path is None and not INSTALLED.exists():
        return control_socket(STATE_DIRECTORY, CONTROL_SOCKET)
    found = configured_socket(path or INSTALLED)
    if found is not None:
        return found
    config = read_config(command, path)
    return config.control_socket if config else None


Ask = Callable[..., Any]
"""The daemon's answer to a question: its name, and what goes with it by keyword."""
_STRANGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""What becomes of an answer that has not the form of one."""


def ask_daemon(command: str, arguments: argparse.Namespace, show: Callable[[Ask], int]) -> int:
    """The exit code of a command that asks the daemon and shows what it answered."""
    socket = daemon_socket(command, arguments.config)
    return NOT_DONE if socket is None else _shown(command, arguments, socket, show)


def _shown(
    command: str, arguments: argparse.Namespace, socket: Path, show: Callable[[Ask], int]
) -> int:
    def ask_daemon(question: str, **words: Any) -> Any:
        said = {name: value for name, value in words.items() if value is not None}
        return ask(socket, question, said)

    try:
        code = show(ask_daemon)
    except WordsError as error:
        return complain(command, str(error), WRONG_WORDS)
    except NobodyError as error:
        return _nobody(command, arguments, str(error))
    except (ControlError, NotDoneError) as error:
        return complain(command, str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        return complain(command, f"{error.filename or 'output'}: {error.strerror}")
    except _STRANGE:
        return complain(command, f"{socket}: what answers there speaks otherwise than this version")
    _say_what_is_not_done(ask_daemon)
    return code


_NOT_DONE = {
    "dry": "mode dry: what is decided is shown, and nothing of it is done",
    "shadow": "mode shadow: what is decided is compared, and nothing of it is done",
}


def _say_what_is_not_done(ask_daemon: Ask) -> None:
    """Whatever was shown: where it is not done, or waits, it is said beside it."""
    try:
        now = ask_daemon("mode")
        said = _NOT_DONE.get(now["mode"])
        if now["waiting_plan"] is not None and now["mode"] == "ask":
            said = f"mode ask: plan {int(now['waiting_plan'])} waits (`merkatd plan show`)"
    except (ControlError, OSError, *_STRANGE):
        return  # it was answered before; who is gone since has nothing more to say
    if said is not None:
        print(f"merkatd: {said}", file=sys.stderr)


def _nobody(command: str, arguments: argparse.Namespace, why: str) -> int:
    """A configuration with mistakes may be the reason; they are worth more then."""
    sound = read_config(command, arguments.config) is not None
    return complain(command, why) if sound else NOT_DONE


def user() -> str:
    """Who gives the command, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user whom the system does not know by name
        return f"uid {os.getuid()}"


sleep = time.sleep


def add_view(parser: argparse.ArgumentParser, tables: Tables, *, follow: bool = True) -> None:
    """The options of every command that shows rows, and the one for the configuration."""
    add_output(parser, tables, follow=follow)
    add_config(parser)


def add_newest(parser: argparse.ArgumentParser) -> None:
    """The option of those that show what came to be, the newest of it."""
    parser.add_argument(
        "--limit",
        metavar="N",
        type=command_parser.count,
        default=50,
        help="the newest N of them (default: 50)",
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
) -> int:
    """Ask and show, once or again and again; the exit code.

    `rows` are what the table shows of an answer. `text` is shown to people who ask for no
    columns; with `whole`, JSON without a list of columns is the answer as it came.
    """

    def show(ask: Ask) -> int:
        columns = chosen_columns(table, arguments)
        filters = chosen_filters(table, arguments)
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
