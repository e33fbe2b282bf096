"""Pools as elements, one after another: parsed as they are asked for and given up as they go."""

from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO

from lxml import etree

Element = etree._Element  # noqa: SLF001 - lxml has no public name for the type

_DIGITS = 18
_MOST = 1e15
"""Larger numbers don't fit into columns; nobody's cloud has them."""


class BrokenError(Exception):
    """A text that breaks off, or is no XML."""


class UnreadableError(Exception):
    """An element that is not as it should be; the message names it and its text."""


def rows(text: str, pool: str, tag: str) -> Iterator[Element]:
    """The elements of this tag right inside the pool's; each is emptied when the next is asked for.

    Raises BrokenError where the text breaks off or is no XML.
    """
    parsed = etree.iterparse(
        BytesIO(text.encode()),
        events=("end",),
        tag=tag,
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
    )
    try:
        for _, element in parsed:
            root = element.getparent()
            # Users name their attributes as they like, also like this.
            if root is None or root.getparent() is not None or root.tag != pool:
                continue
            yield element
            root.remove(element)
    except etree.XMLSyntaxError as error:
        raise BrokenError(f"{pool}: {error.msg}") from None
    if parsed.root is None or parsed.root.tag != pool:
        raise BrokenError(f"there is no {pool}")


def one(text: str, tag: str) -> Element:
    """The only element of a text. Raises BrokenError where it is no XML, or another."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True)
    try:
        element = etree.fromstring(text.encode(), parser)
    except etree.XMLSyntaxError as error:
        raise BrokenError(f"{tag}: {error.msg}") from None
    if element.tag != tag:
        raise BrokenError(f"a {tag} was expected, not a {element.tag!s}")
    return element


def children(element: Element) -> Mapping[str, Element]:
    """The elements inside, by name; of those with one name the first."""
    return {child.tag: child for child in reversed(element)}


def text(parts: Mapping[str, Element], name: str) -> str:
    """The text of a part that must be there, if only empty."""
    part = parts.get(name)
    if part is None:
        raise UnreadableError(f"{name} is missing")
    return part.text or ""


def whole(parts: Mapping[str, Element], name: str) -> int:
    """The whole number in a part that must be there."""
    found = text(parts, name)
    try:
        number = int(found) if len(found) <= _DIGITS else None
    except ValueError:
        number = None
    if number is None:
        raise UnreadableError(f"{name} is {found[:40]!r}, not a whole number")
    return number


def ids(elements: Iterable[Element]) -> tuple[int, ...]:
    """The ids that the elements hold; what is none is left out."""
    texts = (element.text or "" for element in elements)
    return tuple(int(one) for one in texts if one.isdecimal() and len(one) <= _DIGITS)


def amount(parts: Mapping[str, Element], name: str) -> float:
    """The number above 0 in a part that must be there."""
    found = text(parts, name)
    try:
        number = float(found)
    except ValueError:
        number = 0.0
    if not 0 < number < _MOST:
        raise UnreadableError(f"{name} is {found[:40]!r}, not a number above 0")
    return number
