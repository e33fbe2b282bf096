"""The arguments of questions, as the control socket receives them: parsed and checked.

Error texts start with the argument's name and a colon: a form of the web page finds its field by
that name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.base.quantities import quoted_value
from merkatd.service.base.errors import InvalidRequestError

Arguments = Mapping[str, Any]
LARGEST_WHOLE = 2**31 - 1
LONGEST_NAME = 128
"""The longest name in OpenNebula."""


def whole(arguments: Arguments, name: str) -> int | None:
    """Return a whole number from 0 up, or None if it is not given. Raise InvalidRequestError."""
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_WHOLE:
        raise InvalidRequestError(
            f"{name}: must be a whole number from 0 to {LARGEST_WHOLE} (got {quoted_value(value)})"
        )
    return value


def number(arguments: Arguments, name: str, most: float) -> float | None:
    """Return a number from 0 to `most`, or None if it is not given. Raise InvalidRequestError."""
    return checked_amount(name, arguments.get(name), most)


def checked_amount(name: str, value: Any, most: float) -> float | None:
    """Return a value if it is a number from 0 to `most`, or None. Raise InvalidRequestError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequestError(
            f"{name}: must be a number from 0 to {most:g} (got {quoted_value(value)})"
        )
    if not 0 <= value <= most:  # false for NaN too
        raise InvalidRequestError(
            f"{name}: must be a number from 0 to {most:g} (got {quoted_value(value)})"
        )
    return float(value)


def text(arguments: Arguments, name: str) -> str | None:
    """Return a short text, or None if it is not given. Raise InvalidRequestError."""
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        raise InvalidRequestError(
            f"{name}: must be a text of 1 to {LONGEST_NAME} characters (got {quoted_value(value)})"
        )
    return value


def one_of(arguments: Arguments, name: str, known: Sequence[str]) -> str | None:
    """Return one of the known words, or None if it is not given. Raise InvalidRequestError."""
    value = text(arguments, name)
    if value is not None and value not in known:
        raise InvalidRequestError(
            f"{name}: must be one of {', '.join(known)} (got {quoted_value(value)})"
        )
    return value


def order_author(arguments: Arguments) -> str:
    """Return the stated author of an order."""
    return text(arguments, "who") or "unknown"
