"""Templates that clients send: in OpenNebula's own syntax or in XML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lxml import etree

from merkatd import syntax
from merkatd.syntax import Attribute, ParseError, Template, Vector, cdata, xml_name
from merkatd.syntax.lenient_xml import element_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "Attribute",
    "ParseError",
    "Template",
    "Vector",
    "cdata",
    "number",
    "parse",
    "template_xml",
    "transforms",
]

_SAFE: dict[str, Any] = {"resolve_entities": False, "no_network": True, "huge_tree": False}


def parse(text: str) -> Template:
    """Parse a template in either syntax. Raise ParseError if it is invalid."""
    return _parse_xml(text) if text.startswith("<") else syntax.parse(text)


def _parse_xml(text: str) -> Template:
    root = _read(text)
    if root is None:
        raise ParseError("Parse error: XML Template malformed.")
    return Template.of(_xml_attributes(root))


def _read(text: str) -> etree._Element | None:
    """Parse an XML element; return None if oned rejects the text."""
    try:
        return element_of(text.encode(), etree.XMLParser(**_SAFE), **_SAFE)
    except etree.XMLSyntaxError:
        return None


def _xml_attributes(root: etree._Element) -> Iterable[Attribute]:
    """Yield the attributes without empty or deeper nested ones; inner names stay unchanged."""
    for element in root.iterchildren("*"):
        name = xml_name(str(element.tag))
        if len(element):
            pairs = {str(child.tag): child.text for child in element.iterchildren("*")}
            kept = {key: text for key, text in pairs.items() if text}
            if kept:
                yield name, tuple(sorted(kept.items()))
        elif element.text:
            yield name, element.text


def template_xml(template: Template, root: str) -> str:
    """Return a template as oned's XML: CDATA sections contain the texts unchanged, even `]]>`.

    A text that contains `]]>` ends its section early, and its rest counts as XML.
    """
    text = template.xml(root)
    return text.replace(_SPLIT, "]]>") if _ends_sections(template) else text


def transforms(template: Template, user_template: Template) -> bool:
    """Return whether oned's XML of a VM with these templates is valid; oned stores no other."""
    if not (_ends_sections(template) or _ends_sections(user_template)):
        return True
    inside = template_xml(template, "TEMPLATE") + template_xml(user_template, "USER_TEMPLATE")
    return _read(f"<VM>{inside}</VM>") is not None


_SPLIT = "]]]]><![CDATA[>"


def _ends_sections(template: Template) -> bool:
    texts = (
        text
        for _, value in template.attributes
        for text in ((value,) if isinstance(value, str) else (text for _, text in value))
    )
    return any("]]>" in text for text in texts)


def number(text: str, kind: Callable[[str], float], default: float) -> float:
    """Parse a finite number; return the default for any other text."""
    try:
        converted = kind(text)
    except ValueError:
        return default
    return converted if math.isfinite(converted) else default
