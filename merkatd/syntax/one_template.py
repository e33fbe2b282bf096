"""A template: its attributes, and the XML that OpenNebula shows of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

Vector: TypeAlias = tuple[tuple[str, str], ...]
Attribute: TypeAlias = tuple[str, str | Vector]


class ParseError(ValueError):
    """A template that can't be read; the message is what oned puts after the method's name."""


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


def xml_name(name: str) -> str:
    """Return an attribute's name in capitals, with a prefix where XML can't carry it."""
    plain = name[0] == "_" or (name[0].isascii() and name[0].isalpha())
    return name.upper() if plain and not name.upper().startswith("XML") else f"ONE_{name.upper()}"


def cdata(text: str) -> str:
    """The text as a CDATA section; one that holds the section's own end is split there."""
    return f"<![CDATA[{text.replace(']]>', ']]]]><![CDATA[>')}]]>"
