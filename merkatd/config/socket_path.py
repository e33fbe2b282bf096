"""The path of the control socket, read without importing the whole configuration.

A command that only calls the daemon finishes in less time than that import takes. The daemon
has already validated the file, so the command does not need to.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STATE_DIRECTORY = Path("~/.local/state/merkat")
CONTROL_SOCKET = Path("control.sock")


def control_socket(state_directory: Path, socket: Path) -> Path:
    """Return the socket's path; a relative path starts in the state directory."""
    return state_directory.expanduser() / socket.expanduser()


def configured_socket(file: Path) -> Path | None:
    """Return the socket's path from this file, None if the file is invalid.

    The loader of the whole configuration then reports the mistake.
    """
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
    path = section.get(key, str(default))
    return Path(path) if isinstance(path, str) and path else None
