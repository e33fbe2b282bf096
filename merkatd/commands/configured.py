"""What commands that need the configuration have in common."""

import argparse
from pathlib import Path

from merkatd.commands.complaints import complain
from merkatd.config import Config, ConfigError, load

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
    if path is None and not INSTALLED.exists():
        return Config()
    chosen = path or INSTALLED
    try:
        return load(chosen)
    except ConfigError as error:
        for problem in error.problems:
            complain(command, f"{chosen}: {problem}")
    except OSError as error:
        complain(command, f"{chosen}: {error.strerror}")
    except ValueError as error:
        complain(command, f"{chosen}: {error}")
    return None
