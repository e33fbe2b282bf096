"""What is wrong with a configuration, in words that tell where and what would be right."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

KeyPath = tuple[str, ...]
"""Where something stands: sections from the outermost to the key."""

MISSING: Final = object()
"""The value of a problem that is about a key or a section as such."""

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

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
    """A configuration that can't be used; fix all of `problems` and try again."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


def closest(word: str, known: Iterable[str]) -> str:
    """A hint at the known word that was probably meant, or at all there are."""
    words = list(known)
    near = get_close_matches(word, words, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are: {', '.join(words)}" if words else "there are none"
