"""What commands that need the configuration have in common."""

import argparse
import sys
from pathlib import Path

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
            print(f"merkatd {command}: {chosen}: {problem}", file=sys.stderr)
    except OSError as error:
        print(f"merkatd {command}: {chosen}: {error.strerror}", file=sys.stderr)
    return None
