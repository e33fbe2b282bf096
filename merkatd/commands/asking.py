"""What commands that ask the running daemon have in common: errors in one line, exit codes."""

import argparse
import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from merkatd.api.control.control_client import ControlError, NobodyError, ask
from merkatd.commands.complaints import NOT_DONE, WRONG_WORDS, complain
from merkatd.commands.configured import daemon_socket, read_config
from merkatd.commands.output import WordsError

Ask = Callable[..., Any]
"""The daemon's answer to a question: its name, and what goes with it by keyword."""

_STRANGE = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""What becomes of an answer that has not the form of one."""


class NotDoneError(Exception):
    """What was asked for could not be done; the message says why."""


def answered(command: str, arguments: argparse.Namespace, show: Callable[[Ask], int]) -> int:
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
