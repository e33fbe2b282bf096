"""A template: its attributes and their XML, as OpenNebula shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Vector: TypeAlias = tuple[tuple[str, str], ...]
Attribute: TypeAlias = tuple[str, str | Vector]


class ParseError(ValueError):
    """A template that can't be parsed; the message is the text that oned puts after the method."""


@dataclass(frozen=True, slots=True)
class Template:
    """Attributes sorted by name, as oned stores them; a name may occur more than once."""

    attributes: tuple[Attribute, ...] = ()

    @classmethod
    def of(cls, attributes: Iterable[Attribute]) -> Template:
        """Return a template of these attributes, sorted; equal names keep their order."""
        return cls(tuple(sorted(attributes, key=lambda attribute: attribute[0])))

    def get(self, name: str, default: str = "") -> str:
        """Return the text of the first single attribute of this name, else `default`."""
        for key, value in self.attributes:
            if key == name and isinstance(value, str):
                return value
        return default

    def vector(self, name: str) -> dict[str, str]:
        """Return the first vector attribute of this name, or an empty dict."""
        for key, value in self.attributes:
            if key == name and not isinstance(value, str):
                return dict(value)
        return {}

    def vectors(self, name: str) -> list[dict[str, str]]:
        """Return all vector attributes of this name."""
        return [
            dict(value)
            for key, value in self.attributes
            if key == name and not isinstance(value, str)
        ]

    def names(self) -> frozenset[str]:
        """Return the names of all attributes."""
        return frozenset(name for name, _ in self.attributes)

    def without(self, names: Collection[str]) -> Template:
        """Return a copy without the attributes of these names."""
        return Template(tuple(item for item in self.attributes if item[0] not in names))

    def only(self, names: Collection[str]) -> Template:
        """Return a copy with only the attributes of these names."""
        return Template(tuple(item for item in self.attributes if item[0] in names))

    def plus(self, attributes: Iterable[Attribute]) -> Template:
        """Return a copy in which these attributes replace all others of the same names."""
        added = tuple(attributes)
        kept = self.without({name for name, _ in added})
        return Template.of(kept.attributes + added)

    def xml(self, root: str) -> str:
        """Return the template as XML, as oned shows it."""
        parts = [f"<{root}>"]
        for name, value in self.attributes:
            if isinstance(value, str):
                parts.append(f"<{name}>{cdata(value)}</{name}>")
            else:
                inner = "".join(f"<{key}>{cdata(text)}</{key}>" for key, text in value)
                parts.append(f"<{name}>{inner}</{name}>")
        parts.append(f"</{root}>")
        return "".join(parts)


def xml_name(name: str) -> str:
    """Return an attribute's name in capitals, with the prefix ONE_ if it is no XML name."""
    plain = name[0] == "_" or (name[0].isascii() and name[0].isalpha())
    return name.upper() if plain and not name.upper().startswith("XML") else f"ONE_{name.upper()}"


def cdata(text: str) -> str:
    """Return the text as a CDATA section; a text that contains `]]>` is split there."""
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"
