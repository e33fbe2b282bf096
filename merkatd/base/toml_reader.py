"""Validation of TOML tables key by key, with all problems collected for one report."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from merkatd.base.quantities import SECONDS, OutOfBoundsError, checked_duration, plain_text

Value = TypeVar("Value")
MAX_NUMBER = 1e15
MOST_PROBLEMS = 20
"""The most problems reported for a text: the search for the closest known key takes time."""
_LONGEST_KEY = 40
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(s|m|h|d)", re.ASCII)


class TomlTable:
    """A table; each key that no reader takes is a problem."""

    def __init__(
        self, values: Any, path: str, problems: list[str], *, stored: bool = False
    ) -> None:
        """In a `stored` text, times out of bounds are moved to the nearest bound."""
        self._path = path
        self.stored = stored
        self.problems = problems
        self._known: list[str] = []
        self._values: Mapping[str, Any] = {}
        if isinstance(values, Mapping):
            self._values = values
        else:
            self.complain(f"{path}: must be a table")

    def take(self, key: str, read: Callable[[Any], Value], default: Value) -> Value:
        """Return the value of a key, or the default.

        `read` raises ValueError with the accepted values if the value is wrong.
        """
        self._known.append(key)
        if key not in self._values:
            return default
        try:
            return read(self._values[key])
        except OutOfBoundsError as error:
            if self.stored:
                return read(error.nearest)
            self.wrong(key, str(error))
        except (ValueError, OverflowError) as error:
            self.wrong(key, str(error))
        return default

    def need(self, key: str, read: Callable[[Any], Value], default: Value) -> Value:
        """Return the value of a required key."""
        if key not in self._values:
            self.wrong(key, "is missing")
        return self.take(key, read, default)

    def table(self, key: str) -> "TomlTable":
        """Return the table of this name, or an empty table if it is missing."""
        self._known.append(key)
        return self._inner(self._values.get(key, {}), self._name(key))

    def tables(self, key: str, most: int) -> "list[TomlTable]":
        """Return all tables of this name, but at most `most` + 1 of them.

        The extra table lets the caller detect an excess.
        """
        self._known.append(key)
        given = self._values.get(key, [])
        if not isinstance(given, list):
            self.wrong(key, f"must be an array of tables, written as [[{key}]]")
            return []
        name = self._name(key)
        return [
            self._inner(element, f"{name}[{at}]")
            for at, element in enumerate(given[: most + 1], start=1)
        ]

    def _inner(self, values: Any, path: str) -> "TomlTable":
        return TomlTable(values, path, self.problems, stored=self.stored)

    def has(self, key: str) -> bool:
        """Return whether the key is present."""
        return key in self._values

    def wrong(self, key: str, what: str) -> None:
        """Add a problem with a key, together with its value."""
        given = f" = {_short(self._values[key])}" if key in self._values else ""
        self.complain(f"{self._name(key)}{given}: {what}")

    def complain(self, problem: str) -> None:
        """Add a problem, up to MOST_PROBLEMS."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def end(self) -> None:
        """Add a problem for each key that was never taken; call this after all reads."""
        for key in self._values:
            if len(self.problems) >= MOST_PROBLEMS:
                return
            if key not in self._known:
                near = get_close_matches(key[:_LONGEST_KEY], self._known, n=1, cutoff=0.6)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {listed(self._known)}"
                self.complain(f"{self._name(key[:_LONGEST_KEY])}: unknown key; {hint}")

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key


def listed(names: Sequence[str]) -> str:
    """Return the names as a list for a message."""
    return ", ".join(names)


def name(value: Any) -> str:
    """Return a valid name."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("must be a letter, then at most 31 letters, digits, _ or -")
    return value


def text(value: Any) -> str:
    """Return a text that is neither empty nor too long."""
    if not isinstance(value, str) or not 1 <= len(value) <= 16_384 or "\x00" in value:
        raise ValueError("must be a text of 1 to 16384 characters")
    return value


def flag(value: Any) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise ValueError("must be true or false")  # noqa: TRY004 - `take` expects ValueError
    return value


def number(value: Any, most: float = MAX_NUMBER) -> float:
    """Return a number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"must be a number from 0 to {plain_text(most)}")
    return float(value)


def count(most: int) -> Callable[[Any], int]:
    """Return a reader of whole numbers from 0 to `most`."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ValueError(f"must be a whole number from 0 to {most}")
        return value

    return read


def duration(value: Any) -> float:
    """Return seconds from a text with a unit."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('must be a duration like "90s", "45m", "2h" or "1d"')
    return checked_duration(float(match[1]) * SECONDS[match[2]])


def one_of(*known: str) -> Callable[[Any], str]:
    """Return a reader that accepts these words."""

    def read(value: Any) -> str:
        if value not in known:
            near = get_close_matches(str(value)[:40], known, n=1, cutoff=0.6)
            hint = f"did you mean {str(near[0])!r}?" if near else f"must be one of {listed(known)}"
            raise ValueError(hint)
        return str(value)

    return read


def _short(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
