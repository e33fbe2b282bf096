"""What commands that need the configuration have in common."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from merkatd.commands.complaints import complain
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
