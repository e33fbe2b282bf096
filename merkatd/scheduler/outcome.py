"""What became of a period that was due, in a word that can be counted."""

from collections.abc import Callable
from enum import StrEnum


class NotActingError(Exception):
    """This daemon does nothing at present; the message says why."""


class Outcome(StrEnum):
    """One of these, each time."""

    DONE = "done"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    """OpenNebula did not answer."""
    CUT_SHORT = "cut_short"
    """Another daemon took over, or this one ended."""
    NOT_BEGUN = "not_begun"
    """It is paused, or another daemon acts."""


Counter = Callable[[Outcome, float], None]
"""Told the outcome, and how many seconds it took."""
