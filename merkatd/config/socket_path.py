"""Where the daemon listens, read without all that a whole configuration needs.

A command that only asks the daemon is done sooner than the whole would be imported. The
daemon has read the file with all its rules; nobody needs to for asking it.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATE_DIRECTORY = Path("~/.local/state/merkat")
CONTROL_SOCKET = Path("control.sock")


def control_socket(state_directory: Path, socket: Path) -> Path:
    """The path: the socket's own, or the state directory's file of that name."""
    return state_directory.expanduser() / socket.expanduser()


def configured_socket(file: Path) -> Path | None:
    """What a file says of it; None where only the whole reader can tell what is wrong there."""
    try:
        daemon = tomllib.loads(file.read_text(encoding="utf-8")).get("daemon", {})
    except (OSError, ValueError, RecursionError):
        return None
    directory = _path(daemon, "state_directory", STATE_DIRECTORY)
    socket = _path(daemon, "control_socket", CONTROL_SOCKET)
    return control_socket(directory, socket) if directory and socket else None


def _path(section: Any, key: str, default: Path) -> Path | None:
    if not isinstance(section, Mapping):
        return None
    said = section.get(key, str(default))
    return Path(said) if isinstance(said, str) and said else None
