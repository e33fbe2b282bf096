"""OpenNebula's templates: parsed once at the border, rendered as oned renders them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from lxml import etree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

Vector: TypeAlias = tuple[tuple[str, str], ...]
Attribute: TypeAlias = tuple[str, str | Vector]


class TemplateError(ValueError):
    """A template that cannot be read; the message is what oned would put after the method."""


@dataclass(frozen=True, slots=True)
class Template:
    """Attributes sorted by name, as oned keeps them; a name may come more than once."""

    attributes: tuple[Attribute, ...] = ()

    @classmethod
    def of(cls, attributes: Iterable[Attribute]) -> Template:
        """A template of these attributes, sorted; equal names stay in their order."""
        return cls(tuple(sorted(attributes, key=lambda attribute: attribute[0])))

    def get(self, name: str, default: str = "") -> str:
        """The text of the first single attribute of this name."""
        for key, value in self.attributes:
            if key == name and isinstance(value, str):
                return value
        return default

    def vector(self, name: str) -> dict[str, str]:
        """The first vector attribute of this name; empty if there is none."""
        for key, value in self.attributes:
            if key == name and not isinstance(value, str):
                return dict(value)
        return {}

    def vectors(self, name: str) -> list[dict[str, str]]:
        """All vector attributes of this name."""
        return [
            dict(value)
            for key, value in self.attributes
            if key == name and not isinstance(value, str)
        ]

    def names(self) -> frozenset[str]:
        """The names that occur."""
        return frozenset(name for name, _ in self.attributes)

    def without(self, names: Collection[str]) -> Template:
        """The same without the attributes of these names."""
        return Template(tuple(item for item in self.attributes if item[0] not in names))

    def only(self, names: Collection[str]) -> Template:
        """The attributes of these names and no other."""
        return Template(tuple(item for item in self.attributes if item[0] in names))

    def plus(self, attributes: Iterable[Attribute]) -> Template:
        """The same with these attributes in place of those that have their names."""
        added = tuple(attributes)
        kept = self.without({name for name, _ in added})
        return Template.of(kept.attributes + added)

    def xml(self, root: str) -> str:
        """The element that oned shows."""
        parts = [f"<{root}>"]
        for name, value in self.attributes:
            if isinstance(value, str):
                parts.append(f"<{name}>{cdata(value)}</{name}>")
            else:
                inner = "".join(f"<{key}>{cdata(text)}</{key}>" for key, text in value)
                parts.append(f"<{name}>{inner}</{name}>")
        parts.append(f"</{root}>")
        return "".join(parts)


def _named(name: str) -> str:
    """A name that XML can carry."""
    return f"ONE_{name}" if name[0].isdigit() else name


def cdata(text: str) -> str:
    """The text as a CDATA section; one that holds the section's own end is split there."""
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"


def parse(text: str) -> Template:
    """A template from OpenNebula's own syntax or from XML, whichever it is."""
    if _UNSENDABLE.search(text):
        raise TemplateError("Parse error: the template has characters that XML cannot carry")
    if text.lstrip().startswith("<"):
        return _parse_xml(text)
    if _CDATA_END in text:
        raise TemplateError("Parse error.")
    return Template.of(_Reader(text).attributes())


_UNSENDABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_CDATA_END = "]]>"
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*\n)*")
_NAME = re.compile(r"[A-Za-z0-9_]+")
_EQUAL = re.compile(r"[ \t]*=[ \t\r]*")
_OPEN = re.compile(r"\[[ \t\r\n]*")
_CLOSE = re.compile(r"[ \t\r\n]*\]")
_COMMA = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_QUOTED = re.compile(r'"((?:\\"|[^"])*)"')
"""As far as it goes: a backslash before the last quote stays, one before an earlier one goes."""
_BARE = re.compile(r"[^=# \t\r\n,\[\]]+")
_EMPTY = re.compile(r"(?=\n)")


class _Reader:
    """Reads OpenNebula's own syntax from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def attributes(self) -> list[Attribute]:
        found: list[Attribute] = []
        self._take(_SPACE)
        while self._at < len(self._text):
            attribute = self._attribute()
            # oned forgets vectors that hold nothing.
            found += [attribute] if attribute[1] != () else []
            self._take(_SPACE)
        return found

    def _attribute(self) -> Attribute:
        name = self._need(_NAME, "VARIABLE").upper()
        self._need(_EQUAL, "EQUAL or EQUAL_EMPTY")
        if self._take(_OPEN) is not None:
            return _named(name), self._vector()
        if self._take(_EMPTY) is not None:
            return _named(name), ""
        return _named(name), self._value()

    def _vector(self) -> Vector:
        pairs: dict[str, str] = {}
        if self._take(_CLOSE) is not None:
            return ()
        while True:
            name = self._need(_NAME, "VARIABLE").upper()
            self._need(_EQUAL, "EQUAL")
            pairs.setdefault(name, self._value())
            if self._take(_CLOSE) is not None:
                return tuple(sorted(pairs.items()))
            self._need(_COMMA, "COMMA or CBRACKET")

    def _value(self) -> str:
        quoted = _QUOTED.match(self._text, self._at)
        if quoted is not None:
            self._at = quoted.end()
            return quoted.group(1).replace('\\"', '"')
        return self._need(_BARE, "OBRACKET or STRING")

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return match.group()

    def _need(self, pattern: re.Pattern[str], what: str) -> str:
        taken = self._take(pattern)
        if taken is None:
            line = self._text.count("\n", 0, self._at) + 1
            column = self._at - self._text.rfind("\n", 0, self._at)
            seen = repr(self._text[self._at]) if self._at < len(self._text) else "$end"
            raise TemplateError(
                f"Parse error: syntax error, unexpected {seen}, expecting {what} "
                f"at line {line}, columns {column}:{column + 1}"
            )
        return taken


def _parse_xml(text: str) -> Template:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError:
        raise TemplateError("Parse error: XML Template malformed.") from None
    return Template.of(_xml_attributes(root))


def _xml_attributes(root: etree._Element) -> Iterable[Attribute]:
    """What is empty, or nested deeper than vectors, is left out; names inside stay as they are."""
    for element in root.iterchildren("*"):
        name = str(element.tag).upper()
        if len(element):
            pairs = {str(child.tag): child.text for child in element.iterchildren("*")}
            kept = {key: text for key, text in pairs.items() if text}
            if kept:
                yield name, tuple(sorted(kept.items()))
        elif element.text:
            yield name, element.text


def number(text: str, kind: Callable[[str], float], default: float) -> float:
    """The number that a text holds, or the default where it holds none that is finite."""
    try:
        found = kind(text)
    except ValueError:
        return default
    return found if math.isfinite(found) else default
