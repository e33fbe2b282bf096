"""Quantities as text: numbers with units, times, durations and credits, read and written.

Values from outside are checked against these bounds where they enter. Values that were stored
before a bound existed are moved to the nearest bound when they are read, so that one row never
breaks a page or a list.
"""

import math
from datetime import UTC, datetime
from math import isnan
from typing import Final

LONGEST_S: Final = 3_650 * 86_400.0
"""Ten years: the longest duration that anything may be given."""
EARLIEST_S: Final = 0.0
LATEST_S: Final = 4_102_444_800.0
"""The beginning of the year 2100: the latest moment that anything may be given."""


class OutOfBoundsError(ValueError):
    """A duration or moment is out of its bounds."""

    def __init__(self, message: str, nearest: str | datetime) -> None:
        """`nearest` is the bound, in the form in which the value was written."""
        super().__init__(message)
        self.nearest = nearest


def checked_duration(seconds: float) -> float:
    """Return the duration. Raise OutOfBoundsError if it is not from 0 s to ten years."""
    if 0 <= seconds <= LONGEST_S:
        return seconds
    most = f"{LONGEST_S / 86_400:.0f}d"
    raise OutOfBoundsError(f"a time of at most {most} is right", most if seconds > 0 else "0s")


def checked_moment(at: datetime) -> float:
    """Return the moment in seconds. Raise OutOfBoundsError if it is not from 1970 to 2099."""
    at_s = at.timestamp()
    if EARLIEST_S <= at_s <= LATEST_S:
        return at_s
    raise OutOfBoundsError("a time from the years 1970 to 2099 is right", utc(at_s))


def bounded(at_s: float) -> float:
    """Return the moment, or the nearest bound; the latest moment for NaN."""
    return LATEST_S if isnan(at_s) else min(max(at_s, EARLIEST_S), LATEST_S)


def bounded_or_none(at_s: float | None) -> float | None:
    """Return the moment within its bounds, or None if there is none."""
    return None if at_s is None else bounded(at_s)


def utc(at_s: float) -> datetime:
    """Return the moment within its bounds as a date and time in UTC; never fails."""
    return datetime.fromtimestamp(bounded(at_s), UTC)


def utc_text(seconds: float) -> str:
    """A moment, as the template has it."""
    return utc(round(bounded(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


def lasting(seconds: float) -> str:
    """A duration, in the largest unit of which there is one at least."""
    for unit, length in (("d", 86_400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def amount_text(amount: float) -> str:
    """Credits, or a price."""
    return f"{amount:.6g}"


def shown(value: object) -> str:
    """A value for a message: one line, not too long."""
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:57]}..."


def finite(value: float) -> float | None:
    """JSON has neither infinity nor NaN: null stands for them."""
    return float(value) if math.isfinite(value) else None
