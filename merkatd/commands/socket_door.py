"""The daemon's control socket as the door of `merkatd`, and the option `--config`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from merkatd.api.control.control_client import ControlError, DaemonNotRunningError, ask
from merkatd.commands.ask_daemon import Ask
from merkatd.commands.terminal.command_parser import NotDoneError, print_failure
from merkatd.commands.words.ways_out import os_reason
from merkatd.config.socket_path import (
    CONTROL_SOCKET,
    STATE_DIRECTORY,
    configured_socket,
    control_socket,
)

if TYPE_CHECKING:
    from merkatd.config.configuration import Config

INSTALLED = Path("/etc/merkat/merkatd.toml")
_NO_DAEMON = (
    "start it (systemctl start merkatd, or merkatd run), or name its configuration in --config or"
    " MERKAT_CONFIG"
)
VARIABLE = "MERKAT_CONFIG"
"""The variable of the environment that names the configuration file."""


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option `--config`; without it, MERKAT_CONFIG names the file."""
    named = os.environ.get(VARIABLE)
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        default=Path(named).expanduser() if named else None,
        help=f"the configuration file (default: {VARIABLE}, else {INSTALLED} if it exists, else"
        " all defaults)",
    )


def read_config(command: str, path: Path | None) -> Config | None:
    """Return the configuration; on problems print them on standard error and return None."""
    try:
        return _config(path)
    except NotDoneError as error:
        for problem in error.reasons:
            print_failure(command, problem)
    return None


def loaded(path: Path | None) -> Config:
    """Return the configuration. Raise ConfigError, OSError or ValueError."""
    from merkatd.config.configuration import Config  # noqa: PLC0415
    from merkatd.config.loader import load  # noqa: PLC0415

    if path is None and not INSTALLED.exists():
        return Config()
    return load(path or INSTALLED)


def _config(path: Path | None) -> Config:
    """Return the configuration. Raise NotDoneError with its problems."""
    # Most commands need only the daemon: a late import makes them start faster.
    from merkatd.config.errors import ConfigError  # noqa: PLC0415

    chosen = path or INSTALLED
    try:
        return loaded(path)
    except ConfigError as error:
        raise NotDoneError(*(f"{chosen}: {problem}" for problem in error.problems)) from None
    except OSError as error:
        raise NotDoneError(os_reason(error, chosen)) from None
    except ValueError as error:
        raise NotDoneError(f"{chosen}: {error}") from None


def daemon_socket(path: Path | None) -> Path:
    """Return the daemon's control socket. Raise NotDoneError with the configuration's problems."""
    if path is None and not INSTALLED.exists():
        return control_socket(STATE_DIRECTORY, CONTROL_SOCKET)
    return configured_socket(path or INSTALLED) or _config(path).control_socket


class SocketDoor:
    """The control socket, which answers administrators on the daemon's own machine."""

    program = "merkatd"
    is_own = False

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the option `--config`."""
        add_config(parser)

    @contextmanager
    def opened(self, arguments: argparse.Namespace) -> Iterator[Ask]:
        """Yield a function that asks over the socket. Raise NotDoneError."""
        path: Path | None = arguments.config
        socket = daemon_socket(path)

        def ask_daemon(question: str, **parameters: Any) -> Any:
            given = {name: value for name, value in parameters.items() if value is not None}
            try:
                return ask(socket, question, given)
            except DaemonNotRunningError as error:
                _config(path)  # its problems, if it has any, are why no daemon runs
                raise NotDoneError(f"{error}; {_NO_DAEMON}") from None
            except ControlError as error:
                raise NotDoneError(str(error)) from None

        yield ask_daemon

    def address(self, arguments: argparse.Namespace) -> str:
        """Return the socket's path."""
        return str(daemon_socket(arguments.config))


SOCKET_DOOR = SocketDoor()
