"""The definition of a command: its name, its help, its arguments and its function."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """The definition of a command."""

    name: str
    summary: str
    description: str
    """Text for the help and the manual page."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
