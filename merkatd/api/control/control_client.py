"""The asking end of the control socket; it needs nothing but the standard library."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMEOUT_S = 30.0
LONGEST_ANSWER = 1 << 30
"""More than any cloud needs: whoever sends that much without an end is no daemon of ours."""


class ControlError(Exception):
    """The daemon can't be asked, or would not answer; the message says why."""


class NobodyError(ControlError):
    """No daemon listens there."""


def ask(path: Path, question: str, arguments: Mapping[str, Any] | None = None) -> Any:
    """The daemon's answer to one question; for commands, blocking."""
    request = {"question": question, **(arguments or {})}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(str(path))
            connection.sendall(json.dumps(request).encode() + b"\n")
            line = connection.makefile("rb").readline(LONGEST_ANSWER)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise NobodyError(f"{path}: no daemon answers: {why}") from None
    if not line:
        raise ControlError(f"{path}: the daemon ended before it answered")
    return _value(path, line)


def _value(path: Path, line: bytes) -> Any:
    """What an answer holds; ControlError where it holds an error, or is none."""
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict) or not reply.keys() & {"answer", "error"}:
        raise ControlError(f"{path}: what answers there is no merkatd")
    if "error" in reply:
        raise ControlError(str(reply["error"]))
    return reply["answer"]
