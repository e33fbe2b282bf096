"""Tokens of a template's text, as OpenNebula's lexer finds them.

# Note [Two states and the longest match]
The lexer has two states: after `=` it reads a value, elsewhere it reads names and brackets. In
each state the longest match wins, and the first rule among matches of equal length. A character
that no rule matches is skipped. So `A=1 % B=2` is two attributes. `A="2"x` has a value that
contains quotes, because the bare value `"2"x` is longer than the quoted `"2"`. `A= # x` has the
value `x`: a value has no comments.

Each step takes time in proportion to the characters that it consumes. So the time for a text is
proportional to its length, whatever its content.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final


class TemplateTokenKind(Enum):
    """The kinds of tokens; the values are their names in error messages."""

    VARIABLE = "VARIABLE"
    EQUAL = "EQUAL"
    EQUAL_EMPTY = "EQUAL_EMPTY"
    COMMA = "COMMA"
    OPEN = "OBRACKET"
    CLOSE = "CBRACKET"
    STRING = "STRING"
    CDATA = "CCDATA"
    END = "$end"


@dataclass(frozen=True, slots=True)
class TemplateToken:
    """A token and its place in the text."""

    kind: TemplateTokenKind
    text: str
    start: int
    end: int


CDATA_END: Final = "]]>"

_SKIPPED: Final = re.compile(r"(?:[^A-Za-z0-9_=,\]#]+|#[^\n]*\n)+")
"""Skipped outside values: blanks, comments, and characters that begin no token."""
_SKIPPED_IN_LAST_LINE: Final = re.compile(r"[^A-Za-z0-9_=,\]]+")
"""Skipped in the last line. It has no comments, as no newline ends them: only `#` is skipped."""
VARIABLE: Final = re.compile(r"[A-Za-z0-9_]+")
_EQUAL: Final = re.compile(r"=[ \t]*(\n?)")
_BARE: Final = re.compile(r"[^=# \t\n,\[\]]+")
_OPEN: Final = re.compile(r"\[[ \t\n]*")
_SKIPPED_BEFORE_VALUE: Final = re.compile(r"[=#,\] \t\n]+")
_MARKS: Final = {",": TemplateTokenKind.COMMA, "]": TemplateTokenKind.CLOSE}


def tokens(text: str) -> Iterator[TemplateToken]:
    """Yield the tokens of a text; the last one is END."""
    return _Lexer(text).tokens()


class _Lexer:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._last_line = text.rfind("\n") + 1
        self._last_quote = text.rfind('"')
        self._line_end = -1
        self._cdata = -1
        self._cdata_line = 0

    def tokens(self) -> Iterator[TemplateToken]:
        """Yield each token."""
        value = False
        while (token := self._value() if value else self._other()) is not None:
            self._at = token.end
            value = token.kind is TemplateTokenKind.EQUAL
            yield token
        end = len(self._text)
        yield TemplateToken(TemplateTokenKind.END, "", end, end)

    def _other(self) -> TemplateToken | None:
        """Return the next token outside values, None at the end."""
        text = self._text
        at = max(_end(_SKIPPED, text, self._at, self._last_line), self._at)
        if at >= self._last_line:
            at = max(_end(_SKIPPED_IN_LAST_LINE, text, at), at)
        if at >= len(text):
            return None
        if text[at] in _MARKS:
            return TemplateToken(_MARKS[text[at]], text[at], at, at + 1)
        equal = _EQUAL.match(text, at)
        if equal is not None:
            kind = TemplateTokenKind.EQUAL_EMPTY if equal[1] else TemplateTokenKind.EQUAL
            return TemplateToken(kind, equal[0], at, equal.end())
        end = _end(VARIABLE, text, at)
        return TemplateToken(TemplateTokenKind.VARIABLE, text[at:end], at, end)

    def _value(self) -> TemplateToken | None:
        """Return the next token of a value, None at the end."""
        text = self._text
        while self._at < len(text):
            token = self._value_here(self._at)
            if token is not None:
                return token
            # Stop before a line with the end of a CDATA section: that line is a token.
            self._at = _end(_SKIPPED_BEFORE_VALUE, text, self._at, self._cdata_line)
        return None

    def _value_here(self, at: int) -> TemplateToken | None:
        """Return the token that begins at `at`, None if that character is skipped."""
        text = self._text
        quoted, line, bare = self._quoted(at), self._line_with_cdata(at), _end(_BARE, text, at)
        if line > at and line >= max(quoted, bare):
            return TemplateToken(TemplateTokenKind.CDATA, "", at, line)
        if quoted > at and quoted >= bare:
            return TemplateToken(TemplateTokenKind.STRING, text[at + 1 : quoted - 1], at, quoted)
        if bare > at:
            return TemplateToken(TemplateTokenKind.STRING, text[at:bare], at, bare)
        end = _end(_OPEN, text, at)
        return TemplateToken(TemplateTokenKind.OPEN, text[at:end], at, end) if end > at else None

    def _quoted(self, at: int) -> int:
        """Return the end of the quoted string that begins at `at`, -1 if none begins there.

        A backslash escapes the quote after it. If only escaped quotes follow, the last of them
        ends the string.
        """
        if self._text[at] != '"' or self._last_quote <= at:
            return -1
        end = at
        while (end := self._text.find('"', end + 1)) >= 0:
            if self._text[end - 1] != "\\":
                return end + 1
        return self._last_quote + 1

    def _line_with_cdata(self, at: int) -> int:
        """Return the end of this line if it contains the end of a CDATA section, else -1."""
        if self._cdata < at:
            section_end = self._text.find(CDATA_END, at)
            self._cdata = len(self._text) if section_end < 0 else section_end
            before = self._text.rfind("\n", at, self._cdata) + 1
            self._cdata_line = before if section_end >= 0 else len(self._text)
        if self._line_end < at:
            end = self._text.find("\n", at)
            self._line_end = len(self._text) if end < 0 else end
        return self._line_end if at <= self._cdata < self._line_end else -1


def _end(pattern: re.Pattern[str], text: str, at: int, limit: int | None = None) -> int:
    """Return the end of the match that begins at `at`, -1 if there is none."""
    match = pattern.match(text, at, len(text) if limit is None else limit)
    return -1 if match is None else match.end()
