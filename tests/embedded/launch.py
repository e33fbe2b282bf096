"""Runs only the embedded cloud's command, like `merkatd embedded`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from merkatd.commands.programs.embedded_command import add_arguments, run

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str]) -> int:
    """Run the command with these arguments."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return run(parser.parse_args(words))
