"""The client of the control socket, with the standard library only."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMEOUT_S = 30.0
LONGEST_ANSWER = 1 << 30
"""The longest answer; more than any cloud needs, so a longer answer is not from merkatd."""

_PERHAPS = "it may still carry out the command, or have done so: check before you repeat it"


class ControlError(Exception):
    """The daemon could not be asked, or rejected the question; the message says why."""


class DaemonNotRunningError(ControlError):
    """No daemon listens on the socket."""


def ask(path: Path, question: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """Return the daemon's answer to a question; blocks, as commands may. Raise ControlError."""
    request = {"question": question, **(arguments or {})}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(str(path))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise DaemonNotRunningError(f"{path}: no daemon answers: {why}") from None
        try:
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = connection.makefile("rb").readline(LONGEST_ANSWER)
        except TimeoutError:
            raise ControlError(
                f"{path}: the daemon has not answered for {TIMEOUT_S:g} s; {_PERHAPS}"
            ) from None
        except OSError as error:
            raise ControlError(
                f"{path}: the connection to the daemon ended ({error.strerror}); {_PERHAPS}"
            ) from None
    if not line:
        raise ControlError(f"{path}: the daemon stopped before it answered; {_PERHAPS}")
    return _value(path, line)


def _value(path: Path, line: bytes) -> Any:
    """Return the value of an answer. Raise ControlError for an error or an invalid answer."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict) or not reply.keys() & {"answer", "error"}:
        raise ControlError(f"{path}: the server on this socket is not merkatd")
    if "error" in reply:
        raise ControlError(str(reply["error"]))
    return reply["answer"]
