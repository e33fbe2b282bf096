"""The problems of a configuration: the place, the value, the accepted values."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

KeyPath = tuple[str, ...]
"""The place of a key: its sections, from the outermost, then the key."""

MISSING: Final = object()
"""The value in a problem that concerns a whole section, or a key without its value."""

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a configuration."""

    path: KeyPath
    message: str
    value: Any = MISSING
    line: int | None = None

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line is not None else ""
        name = ".".join(self.path)
        given = "" if self.value is MISSING else f" = {_short(self.value)}"
        return f"{place}{name}{given}: {self.message}" if name else f"{place}{self.message}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class ConfigError(ValueError):
    """The configuration can't be used; `problems` lists all its mistakes."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


def closest(word: str, known: Iterable[str]) -> str:
    """Return a hint: the most similar known word, or else all known words."""
    words = list(known)
    return similar(word, words) or (f"known: {', '.join(words)}" if words else "none is known")


def similar(word: str, known: Iterable[str]) -> str:
    """Return a hint at the most similar known word, empty if none is similar."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else ""
