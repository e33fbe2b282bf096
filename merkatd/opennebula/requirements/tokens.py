"""Tokens of an expression, as OpenNebula's scanner finds them.

OpenNebula's scanner skips characters for which it has no rule: a dot, a line's end, an unclosed
quote. So does this one, so that an expression has the same meaning in both.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np


class RequirementError(ValueError):
    """An expression that OpenNebula can't parse either, or that exceeds the limits.

    The message names the position, what was found there and what was expected.
    """


class TokenKind(Enum):
    """The kinds of tokens."""

    NAME = "a name or a text"
    WHOLE = "a whole number"
    DECIMAL = "a decimal number"
    SIGN = "a sign"
    END = "the end"


class RequirementToken(NamedTuple):
    """A token of an expression."""

    kind: TokenKind
    value: str | int | float
    at: int
    """The position of its first character in the text, from 1 on."""

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
"""The range of whole numbers: OpenNebula stores them in 32 bits."""


def cut(text: str) -> list[RequirementToken]:
    """Return the tokens of a text, with END. Raise RequirementError for a too large number."""
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
    # Don't convert longer texts: the number is outside the range, and conversion takes time.
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
        raise RequirementError(f"at character {at}: the number {text[:20]}... is too large")
    return number


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an expression."""

    characters: int
    terms: int
    """The most comparisons, or operands of a rank."""
    text: int
    """The most characters of a text in a comparison."""


OF_USERS = Limits(characters=4_096, terms=100, text=256)
"""The limits for users' expressions: a period may have to evaluate thousands of them."""
OF_ONED = Limits(characters=1 << 17, terms=1 << 13, text=1 << 13)
"""The limits for oned's expressions, which grow with the number of clusters."""


class TokenReader:
    """Reads the tokens of a text in order."""

    def __init__(self, text: str, limits: Limits) -> None:
        """Raise RequirementError if the text is longer than `limits` allow."""
        if len(text) > limits.characters:
            raise RequirementError(
                f"it has more than {limits.characters} characters, the most that are accepted"
            )
        self._tokens: Sequence[RequirementToken] = cut(text)
        self._next = 0
        self._limits = limits
        self._terms = 0

    def count_term(self) -> None:
        """Count a comparison, or an operand of a rank. Raise RequirementError above the limit."""
        self._terms += 1
        if self._terms > self._limits.terms:
            raise RequirementError(
                f"at character {self.ahead.at}: it has more than {self._limits.terms} terms,"
                " the most that are accepted"
            )

    @property
    def ahead(self) -> RequirementToken:
        """Return the next token."""
        return self._tokens[self._next]

    def take(self) -> RequirementToken:
        """Consume and return the next token; END is never consumed."""
        token = self.ahead
        if token.kind is not TokenKind.END:
            self._next += 1
        return token

    def take_value(self) -> str | int | float:
        """Consume and return a value. Raise RequirementError if it is a too long text."""
        most = self._limits.text
        if isinstance(self.ahead.value, str) and len(self.ahead.value) > most:
            raise RequirementError(
                f"at character {self.ahead.at}: expected a text of at most {most} characters"
                f" (got {len(self.ahead.value)})"
            )
        return self.take().value

    def over(self) -> bool:
        """Return whether the next token is END."""
        return self.ahead.kind is TokenKind.END

    def comes(self, *signs: str) -> bool:
        """Return whether the next token is one of these signs."""
        return self.ahead.kind is TokenKind.SIGN and self.ahead.value in signs

    def taken(self, *signs: str) -> str:
        """Consume and return the next token if it is one of these signs, else return ""."""
        return str(self.take().value) if self.comes(*signs) else ""

    def refuse(self, expected: str) -> RequirementError:
        """Return the error for an unexpected next token."""
        return RequirementError(
            f"at character {self.ahead.at}: expected {expected}, not {self.ahead}"
        )
