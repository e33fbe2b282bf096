"""Reading TOML tables key by key: what is wrong is collected, so that all of it is told at once."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from merkatd.base.quantities import OutOfBoundsError, checked_duration

Value = TypeVar("Value")
MAX_NUMBER = 1e15
MOST_PROBLEMS = 20
"""So many are told of one text: looking for the nearest known key takes time."""
_LONGEST_KEY = 40
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}", re.ASCII)
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(s|m|h|d)", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class TomlTable:
    """One table; keys that nobody takes are wrong."""

    def __init__(
        self, values: Any, path: str, problems: list[str], *, stored: bool = False
    ) -> None:
        """Times that are out of bounds are moved to their bound in what was `stored` before."""
        self._path = path
        self.stored = stored
        self.problems = problems
        self._known: list[str] = []
        self._values: Mapping[str, Any] = {}
        if isinstance(values, Mapping):
            self._values = values
        else:
            self.complain(f"{path}: a table is right")

    def take(self, key: str, read: Callable[[Any], Value], default: Value) -> Value:
        """The value of a key, or the default; `read` raises ValueError for what would be right."""
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
        """The value of a key that can't be left out."""
        if key not in self._values:
            self.wrong(key, "is missing")
        return self.take(key, read, default)

    def table(self, key: str) -> "TomlTable":
        """The table of this name, an empty one where there is none."""
        self._known.append(key)
        return self._inner(self._values.get(key, {}), self._name(key))

    def tables(self, key: str, most: int) -> "list[TomlTable]":
        """All tables of this name; of more than `most`, one more than that."""
        self._known.append(key)
        given = self._values.get(key, [])
        if not isinstance(given, list):
            self.wrong(key, f"[[{key}]], a table for each, is right")
            return []
        name = self._name(key)
        return [
            self._inner(one, f"{name}[{at}]") for at, one in enumerate(given[: most + 1], start=1)
        ]

    def _inner(self, values: Any, path: str) -> "TomlTable":
        return TomlTable(values, path, self.problems, stored=self.stored)

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self._values

    def wrong(self, key: str, what: str) -> None:
        """Say what is wrong with a key."""
        given = f" = {_short(self._values[key])}" if key in self._values else ""
        self.complain(f"{self._name(key)}{given}: {what}")

    def complain(self, problem: str) -> None:
        """Note what is wrong, up to as many problems as are told."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def end(self) -> None:
        """All keys were taken that there can be: complain about the others."""
        for key in self._values:
            if len(self.problems) >= MOST_PROBLEMS:
                return
            if key not in self._known:
                near = get_close_matches(key[:_LONGEST_KEY], self._known, n=1, cutoff=0.6)
                hint = f"did you mean {near[0]!r}?" if near else f"{listed(self._known)} are known"
                self.complain(f"{self._name(key[:_LONGEST_KEY])}: is unknown; {hint}")

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key


def listed(names: Sequence[str]) -> str:
    """For people."""
    return ", ".join(names)


def name(value: Any) -> str:
    """What something may be called."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("a letter, then at most 31 letters, digits, _ or -, are right")
    return value


def text(value: Any) -> str:
    """Any text that is not too long."""
    if not isinstance(value, str) or not 1 <= len(value) <= 16_384 or "\x00" in value:
        raise ValueError("a text of 1 to 16384 characters is right")
    return value


def flag(value: Any) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise ValueError("true or false is right")  # noqa: TRY004 - all that is wrong is a value
    return value


def number(value: Any, most: float = MAX_NUMBER) -> float:
    """A number from 0 on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"it must be a number from 0 to {most:g}")
    return float(value)


def count(most: int) -> Callable[[Any], int]:
    """A whole number up to that."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ValueError(f"a whole number from 0 to {most} is right")
        return value

    return read


def duration(value: Any) -> float:
    """Seconds, from a text with a unit."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a time like "90s", "45m", "2h" or "1d" is right')
    return checked_duration(float(match[1]) * _SECONDS[match[2]])


def one_of(*known: str) -> Callable[[Any], str]:
    """One of these words."""

    def read(value: Any) -> str:
        if value not in known:
            near = get_close_matches(str(value)[:40], known, n=1, cutoff=0.6)
            hint = f"did you mean {str(near[0])!r}?" if near else f"one of {listed(known)} is right"
            raise ValueError(hint)
        return str(value)

    return read


def _short(value: Any) -> str:
    try:
        said = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return said if len(said) <= 60 else f"{said[:57]}..."
