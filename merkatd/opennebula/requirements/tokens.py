"""The words of an expression, cut as OpenNebula's scanner cuts them.

What that scanner knows no rule for (a dot, a line's end, a quote that nothing closes) it
passes over, and so does this one: an expression means the same to both.
"""

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np


class RequirementError(ValueError):
    """An expression that OpenNebula would not understand either.

    The message names the place, what stands there and what was expected.
    """


class Kind(Enum):
    """What a word is."""

    NAME = "a name or a text"
    WHOLE = "a whole number"
    DECIMAL = "a decimal number"
    SIGN = "a sign"
    END = "the end"


class Token(NamedTuple):
    """One word."""

    kind: Kind
    value: str | int | float
    at: int
    """Its first character's place in the text, from 1 on."""

    def __str__(self) -> str:
        return "the end" if self.kind is Kind.END else repr(self.value)


_WORD = re.compile(
    r"""
      (?P<NAME>[A-Za-z][0-9A-Za-z_]*)
    | "(?P<QUOTED>[^"]*)"
    | (?P<DECIMAL>-?[0-9]+\.[0-9]+)
    | (?P<WHOLE>-?[0-9]+)
    | (?P<SIGN>[@!&|=><()*+/^-])
    """,
    re.VERBOSE,
)

LEAST, MOST = -(2**31), 2**31 - 1
"""OpenNebula keeps whole numbers in 32 bits."""


def cut(text: str) -> list[Token]:
    """The words of the text, and the end. Raises RequirementError for a number too large."""
    tokens = [_token(match) for match in _WORD.finditer(text)]
    return [*tokens, Token(Kind.END, "", len(text) + 1)]


def _token(match: re.Match[str]) -> Token:
    name, text, at = str(match.lastgroup), match[match.lastgroup or 0], match.start() + 1
    if name == "WHOLE":
        return Token(Kind.WHOLE, _whole(text, at), at)
    if name == "DECIMAL":
        return Token(Kind.DECIMAL, _decimal(text, at), at)
    return Token(Kind.SIGN if name == "SIGN" else Kind.NAME, text, at)


def _whole(text: str, at: int) -> int:
    # A shorter text can't be outside; a far longer one is not worth converting.
    number = int(text) if len(text) <= 12 else MOST + 1
    if not LEAST <= number <= MOST:
        raise RequirementError(
            f"at character {at}: {text[:20]} is too large; from {LEAST} to {MOST} is right"
        )
    return number


def _decimal(text: str, at: int) -> float:
    with np.errstate(over="ignore"):
        number = float(np.float32(float(text)))
    if not np.isfinite(number):
        raise RequirementError(f"at character {at}: {text[:20]}... is too large")
    return number


class Reading:
    """The words of a text, one after another."""

    def __init__(self, text: str) -> None:
        self._tokens: Sequence[Token] = cut(text)
        self._next = 0

    @property
    def ahead(self) -> Token:
        """The next word."""
        return self._tokens[self._next]

    def take(self) -> Token:
        """The next word, which is then behind; the end stays ahead."""
        token = self.ahead
        if token.kind is not Kind.END:
            self._next += 1
        return token

    def over(self) -> bool:
        """Whether nothing but the end is ahead."""
        return self.ahead.kind is Kind.END

    def comes(self, *signs: str) -> bool:
        """Whether one of these signs is ahead."""
        return self.ahead.kind is Kind.SIGN and self.ahead.value in signs

    def taken(self, *signs: str) -> str:
        """The sign ahead, taken, if it is one of these; nothing otherwise."""
        return str(self.take().value) if self.comes(*signs) else ""

    def refuse(self, expected: str) -> RequirementError:
        """The error that what is ahead is not what was expected."""
        return RequirementError(
            f"at character {self.ahead.at}: {self.ahead} stands where {expected} is right"
        )
