"""What this command is called: beside OpenNebula's command of its name it has another one."""

import sys
from pathlib import Path

NAME, BESIDE = "onegroup", "merkat-onegroup"


def named(text: str) -> str:
    """A text with examples, in which the command has the name that it was called by."""
    return text.replace(f"    {NAME} ", f"    {program()} ")


def program() -> str:
    """The name that it was called by, as far as it is one of its own."""
    called = Path(sys.argv[0]).name
    return called if called == BESIDE else NAME
