"""What only platform templates say: moments, and tables that are handed on as they are."""

import math
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from merkatd.fields import duration
from merkatd.moments import OutOfBoundsError, checked_moment
from merkatd.platforms.template import Moment

LARGEST: Final = 2**53
"""Larger whole numbers do not reach a controller as they are."""


def moment(value: Any) -> Moment:
    """So long after the submission, or a date and time with its zone."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time of which zone? 2026-05-01T09:00:00Z is right")
        return Moment(at_s=checked_moment(value))
    try:
        return Moment(after_s=duration(value))
    except OutOfBoundsError:
        raise
    except ValueError:
        raise ValueError(
            'a time after the submission like "6h", or one like 2026-05-01T09:00:00Z, is right'
        ) from None


def moment_of_text(value: Any) -> Moment:
    """The same from a text."""
    with suppress(TypeError, ValueError):
        value = datetime.fromisoformat(value)
    return moment(value)


def plain(value: Any) -> dict[str, Any]:
    """A table that is handed on as it is; what JSON can't carry is refused."""
    if not isinstance(value, Mapping):
        raise ValueError("a table is right")  # noqa: TRY004 - all that is wrong is a value
    _check_plain(value, 0)
    return dict(value)


def _check_plain(value: Any, depth: int) -> None:
    if depth > 8:
        raise ValueError("at most eight tables inside each other are right")
    if isinstance(value, Mapping):
        for one in value.values():
            _check_plain(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _check_plain(one, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("finite numbers are right")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"whole numbers from -{LARGEST} to {LARGEST} are right")
    elif not isinstance(value, bool | int | float | str):
        raise ValueError("texts, numbers, true and false, lists and tables are right")
