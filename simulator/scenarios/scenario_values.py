"""Values in scenario files: each reader raises ValueError with what is accepted."""

from collections.abc import Callable
from typing import Any

from merkatd.base.toml_reader import count, duration, number

MAX_COUNT = 1_000_000


class ScenarioError(Exception):
    """Raised for an invalid scenario file; the message has a line for each error."""


def positive(value: Any) -> float:
    """Return a number above 0."""
    if number(value) <= 0:
        raise ValueError("must be a number above 0")
    return float(value)


def part(value: Any) -> float:
    """Return a number above 0 and at most 1."""
    if number(value, 1.0) <= 0:
        raise ValueError("must be a number above 0 and at most 1")
    return float(value)


def at_least_one(value: Any) -> int:
    """Return a whole number from 1 on."""
    if count(MAX_COUNT)(value) < 1:
        raise ValueError(f"must be a whole number from 1 to {MAX_COUNT}")
    return int(value)


def some_time(value: Any) -> float:
    """Return the seconds of a time above 0."""
    if duration(value) <= 0:
        raise ValueError('must be a time above 0, like "90s" or "2h"')
    return duration(value)


def pair(value: Any) -> tuple[float, float]:
    """Return two numbers in order."""
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("must be the least and the greatest, as in [1.5, 10]")
    least, most = positive(value[0]), positive(value[1])
    if least > most:
        raise ValueError("must be the least and the greatest, as in [1.5, 10]")
    return least, most


def several(read: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a reader of lists of such values."""

    def each(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not value:
            raise ValueError("must be a list of at least one value")
        return tuple(read(value) for value in value)

    return each
