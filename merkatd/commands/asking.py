"""What commands that ask the running daemon have in common: errors in one line, exit codes."""

import argparse
import getpass
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from merkatd.api.control import ControlError, ask
from merkatd.commands.complaints import NOT_DONE, WRONG_WORDS, complain
from merkatd.commands.configured import read_config

Ask = Callable[..., Any]
"""The daemon's answer to a question: its name, and what goes with it by keyword."""

_STRANGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""What becomes of an answer that has not the form of one."""


class WordsError(Exception):
    """The words of a command were wrong in a way that only shows once they are all known."""


class NotDoneError(Exception):
    """What was asked for could not be done; the message says why."""


def answered(command: str, arguments: argparse.Namespace, show: Callable[[Ask], int]) -> int:
    """The exit code of a command that asks the daemon and shows what it answered."""
    config = read_config(command, arguments.config)
    if config is None:
        return NOT_DONE
    socket = config.control_socket

    def ask_daemon(question: str, **words: Any) -> Any:
        said = {name: value for name, value in words.items() if value is not None}
        return ask(socket, question, said)

    try:
        return show(ask_daemon)
    except WordsError as error:
        return complain(command, str(error), WRONG_WORDS)
    except (ControlError, NotDoneError) as error:
        return complain(command, str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        return complain(command, f"{error.filename or 'output'}: {error.strerror}")
    except _STRANGE:
        return complain(command, f"{socket}: what answers there speaks otherwise than this version")


def user() -> str:
    """Who gives the command, for the record."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user whom the system does not know by name
        return f"uid {os.getuid()}"


def rows_of(answer: Any) -> Sequence[Mapping[str, Any]]:
    """An answer that is a list of objects. Raises TypeError."""
    if not isinstance(answer, list) or not all(isinstance(row, dict) for row in answer):
        raise TypeError("a list of objects was expected")
    return answer


def screen_width() -> int | None:
    """Of the terminal, or as COLUMNS says; None where the output goes into a file or a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size((80, 24)).columns, 20)
    return None
