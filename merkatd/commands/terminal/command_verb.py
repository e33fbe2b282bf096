"""A verb of a command line: what it is called, what it takes, what it does."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """One of a command's verbs."""

    name: str
    summary: str
    description: str
    """For its help and its manual page."""
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
