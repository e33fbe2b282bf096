"""The arguments of questions, as the control socket hands them over: read, and checked."""

from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.base.quantities import shown
from merkatd.service.base.errors import QuestionError

Arguments = Mapping[str, Any]
LARGEST_WHOLE = 2**31 - 1
LONGEST_NAME = 128
"""OpenNebula gives nothing a longer name."""


def whole(arguments: Arguments, name: str) -> int | None:
    """A whole number from 0 on; None where it is not given."""
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_WHOLE:
        raise QuestionError(
            f"{name}: {shown(value)}: a whole number from 0 to {LARGEST_WHOLE} is right"
        )
    return value


def number(arguments: Arguments, name: str, most: float) -> float | None:
    """A number from 0 to `most`; None where it is not given."""
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuestionError(f"{name}: {shown(value)}: it must be a number from 0 to {most:g}")
    if not 0 <= value <= most:  # false for NaN too
        raise QuestionError(f"{name}: {shown(value)}: it must be a number from 0 to {most:g}")
    return float(value)


def text(arguments: Arguments, name: str) -> str | None:
    """A short text; None where it is not given."""
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        raise QuestionError(f"{name}: {shown(value)}: 1 to {LONGEST_NAME} characters are right")
    return value


def one_of(arguments: Arguments, name: str, known: Sequence[str]) -> str | None:
    """One of these words; None where it is not given."""
    value = text(arguments, name)
    if value is not None and value not in known:
        raise QuestionError(f"{name}: {shown(value)}: one of {', '.join(known)} is right")
    return value


def who(arguments: Arguments) -> str:
    """Who gives an order, as far as they say."""
    return text(arguments, "who") or "somebody"
