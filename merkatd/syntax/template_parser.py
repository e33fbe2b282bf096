"""OpenNebula's template parser, in Python: from a template's text to its attributes."""

import re
from collections.abc import Iterator
from typing import Final

from merkatd.syntax.one_template import Attribute, ParseError, Template, Vector, xml_name
from merkatd.syntax.template_lexer import CDATA_END, TemplateToken, TemplateTokenKind, tokens

UNSENDABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""A character that XML cannot carry."""
_NO_CDATA: Final = f"Parse error: a value may not contain {CDATA_END}"


def parse(text: str, most: int | None = None) -> Template:
    """Parse a text as OpenNebula parses it and return the template. Raise ParseError.

    A text with more than `most` values is rejected before all of them are read.
    """
    if UNSENDABLE.search(text):
        raise ParseError("Parse error: the template has characters that XML cannot carry")
    # XML-RPC turns every line end into a newline.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return Template.of(_Parser(text, most).attributes())


class _Parser:
    """Reads attributes from tokens, with one token of lookahead."""

    def __init__(self, text: str, most: int | None) -> None:
        self._text = text
        self._most = most
        self._values = 0
        self._tokens = tokens(text)
        self._next = next(self._tokens)

    def attributes(self) -> Iterator[Attribute]:
        """Yield each attribute except empty vectors, which OpenNebula drops."""
        while self._next.kind is not TemplateTokenKind.END:
            name, value = self._attribute()
            if name == "NAME" and isinstance(value, str):
                yield name, value.rstrip(" \f\n\r\t\v")
            elif value != ():
                yield name, value

    def _attribute(self) -> Attribute:
        name = xml_name(self._take(TemplateTokenKind.VARIABLE))
        if self._has(TemplateTokenKind.EQUAL_EMPTY):
            self._count_value()
            return name, ""
        self._take(TemplateTokenKind.EQUAL)
        if self._has(TemplateTokenKind.OPEN):
            return name, self._vector()
        return name, self._string()

    def _vector(self) -> Vector:
        pairs: dict[str, str] = {}
        if self._has(TemplateTokenKind.CLOSE):
            self._count_value()
            return ()
        while True:
            name = self._take(TemplateTokenKind.VARIABLE).upper()
            self._take(TemplateTokenKind.EQUAL)
            # Of several values with the same name, the first applies.
            pairs.setdefault(name, self._string())
            if self._has(TemplateTokenKind.CLOSE):
                return tuple(sorted(pairs.items()))
            self._take(TemplateTokenKind.COMMA)

    def _string(self) -> str:
        text = self._take(TemplateTokenKind.STRING).replace('\\"', '"')
        if CDATA_END in text:
            # OpenNebula reads such a value if it spans several lines, but then can't store it.
            raise ParseError(_NO_CDATA)
        self._count_value()
        return text

    def _count_value(self) -> None:
        """Count a value, also an empty one. Raise ParseError if there are too many."""
        self._values += 1
        if self._most is not None and self._values > self._most:
            raise ParseError(f"Parse error: the template has more than {self._most} values")

    def _has(self, kind: TemplateTokenKind) -> bool:
        """Return whether the next token is of this kind; if so, consume it."""
        if self._next.kind is not kind:
            return False
        self._next = next(self._tokens, self._next)
        return True

    def _take(self, kind: TemplateTokenKind) -> str:
        """Consume the next token and return its text. Raise ParseError if it is not `kind`."""
        token = self._next
        if not self._has(kind):
            raise self._unexpected(token, kind)
        return token.text

    def _unexpected(self, token: TemplateToken, wanted: TemplateTokenKind) -> ParseError:
        if token.kind is TemplateTokenKind.CDATA:
            return ParseError(_NO_CDATA)
        line = self._text.count("\n", 0, token.start) + 1
        column = token.start - self._text.rfind("\n", 0, token.start)
        return ParseError(
            f"Parse error: syntax error, unexpected {token.kind.value}, "
            f"expecting {wanted.value} at line {line}, columns {column}:"
            f"{column + token.end - token.start}"
        )
