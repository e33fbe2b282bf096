"""The words of an expression, cut as OpenNebula's scanner cuts them.

What that scanner knows no rule for (a dot, a line's end, a quote that nothing closes) it
passes over, and so does this one: an expression means the same to both.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np


class RequirementError(ValueError):
    """An expression that OpenNebula would not understand either.

    The message names the place, what stands there and what was expected.
    """


class TokenKind(Enum):
    """What a word is."""

    NAME = "a name or a text"
    WHOLE = "a whole number"
    DECIMAL = "a decimal number"
    SIGN = "a sign"
    END = "the end"


class RequirementToken(NamedTuple):
    """One word."""

    kind: TokenKind
    value: str | int | float
    at: int
    """Its first character's place in the text, from 1 on."""

    def __str__(self) -> str:
        return "the end" if self.kind is TokenKind.END else repr(self.value)


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

MIN_NUMBER, MAX_NUMBER = -(2**31), 2**31 - 1
"""OpenNebula keeps whole numbers in 32 bits."""


def cut(text: str) -> list[RequirementToken]:
    """The words of the text, and the end. Raises RequirementError for a number too large."""
    tokens = [_token(match) for match in _WORD.finditer(text)]
    return [*tokens, RequirementToken(TokenKind.END, "", len(text) + 1)]


def _token(match: re.Match[str]) -> RequirementToken:
    name, text, at = str(match.lastgroup), match[match.lastgroup or 0], match.start() + 1
    if name == "WHOLE":
        return RequirementToken(TokenKind.WHOLE, _whole(text, at), at)
    if name == "DECIMAL":
        return RequirementToken(TokenKind.DECIMAL, _decimal(text, at), at)
    return RequirementToken(TokenKind.SIGN if name == "SIGN" else TokenKind.NAME, text, at)


def _whole(text: str, at: int) -> int:
    # A shorter text can't be outside; a far longer one is not worth converting.
    number = int(text) if len(text) <= 12 else MAX_NUMBER + 1
    if not MIN_NUMBER <= number <= MAX_NUMBER:
        raise RequirementError(
            f"at character {at}: expected {MIN_NUMBER} to {MAX_NUMBER}, not {text[:20]}"
        )
    return number


def _decimal(text: str, at: int) -> float:
    with np.errstate(over="ignore"):
        number = float(np.float32(float(text)))
    if not np.isfinite(number):
        raise RequirementError(f"at character {at}: {text[:20]}... is too large")
    return number


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a text may say."""

    characters: int
    terms: int
    """Comparisons, or operands of a rank."""
    text: int
    """Characters of a text that is compared."""


OF_USERS = Limits(characters=4_096, terms=100, text=256)
"""What users write: each period may have thousands of such texts to judge."""
OF_ONED = Limits(characters=1 << 17, terms=1 << 13, text=1 << 13)
"""What oned writes: it grows with the number of clusters."""


class TokenReader:
    """The words of a text, one after another."""

    def __init__(self, text: str, limits: Limits) -> None:
        """Raise RequirementError if the text is longer than `limits` allow."""
        if len(text) > limits.characters:
            raise RequirementError(
                f"it has more than {limits.characters} characters, which are the most that it"
                " may have"
            )
        self._tokens: Sequence[RequirementToken] = cut(text)
        self._next = 0
        self._limits = limits
        self._terms = 0

    def count_term(self) -> None:
        """Count a comparison, or an operand of a rank. Raise RequirementError at one too many."""
        self._terms += 1
        if self._terms > self._limits.terms:
            raise RequirementError(
                f"at character {self.ahead.at}: it has more than {self._limits.terms} terms,"
                " which are the most that it may have"
            )

    @property
    def ahead(self) -> RequirementToken:
        """The next word."""
        return self._tokens[self._next]

    def take(self) -> RequirementToken:
        """The next word, which is then behind; the end stays ahead."""
        token = self.ahead
        if token.kind is not TokenKind.END:
            self._next += 1
        return token

    def take_value(self) -> str | int | float:
        """What is compared with. Raise RequirementError if it is a text that is too long."""
        most = self._limits.text
        if isinstance(self.ahead.value, str) and len(self.ahead.value) > most:
            raise RequirementError(
                f"at character {self.ahead.at}: a text of at most {most} characters is right"
            )
        return self.take().value

    def over(self) -> bool:
        """Whether nothing but the end is ahead."""
        return self.ahead.kind is TokenKind.END

    def comes(self, *signs: str) -> bool:
        """Whether one of these signs is ahead."""
        return self.ahead.kind is TokenKind.SIGN and self.ahead.value in signs

    def taken(self, *signs: str) -> str:
        """The sign ahead, taken, if it is one of these; nothing otherwise."""
        return str(self.take().value) if self.comes(*signs) else ""

    def refuse(self, expected: str) -> RequirementError:
        """The error that what is ahead is not what was expected."""
        return RequirementError(
            f"at character {self.ahead.at}: {self.ahead} stands where {expected} is right"
        )
