"""Pools as elements, one after another: parsed as they are asked for and given up as they go.

A pool is cut where one of its elements ends and the next begins, and each piece is parsed by
itself: that takes less time than events, a tree is never larger than one VM, and a piece that
is no XML spoils no other. A cut in the wrong place, in a text that somebody gave to his VM,
leaves pieces that are no XML; then the pool is streamed as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from threading import local
from typing import Any

from lxml import etree

from merkatd.syntax.lenient_xml import element_of, only_in_names

Element = etree._Element  # noqa: SLF001 - lxml has no public name for the type

_SAFE: dict[str, Any] = {
    "resolve_entities": False,
    # Tenants write texts of any length: libxml2 takes 10 MB of one at most unless it is told.
    "huge_tree": True,
    "no_network": True,
    "remove_comments": True,
    "remove_pis": True,
}
_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"
_DIGITS = 18
_LARGEST = 10**_DIGITS
_MOST = 1e15
"""Larger numbers don't fit into columns; nobody's cloud has them."""


class BrokenError(Exception):
    """A text that breaks off, or is no XML."""


class UnreadableError(Exception):
    """An element that is not as it should be; the message names it and its text."""


def pieces(text: str, pool: str, tag: str) -> Iterator[bytes] | None:
    """The bytes of each element inside the pool's; None where that can't be told by their look."""
    body = text.strip()
    if body == f"<{pool}/>":
        return iter(())
    head, tail = f"<{pool}>", f"</{pool}>"
    begin, end = f"<{tag}>", f"</{tag}>"
    if body == head + tail:
        return iter(())
    if not (body.startswith(head + begin) and body.endswith(end + tail)):
        return None
    return _cut(body, len(head), len(body) - len(tail), end + begin, len(end))


def _cut(body: str, start: int, stop: int, joint: str, kept: int) -> Iterator[bytes]:
    """From start to stop, cut where a joint is, so much of which belongs to what ends there.

    Each piece becomes bytes by itself: to turn the whole text at once stops every thread for long.
    """
    while True:
        at = body.find(joint, start, stop)
        if at < 0:
            yield body[start:stop].encode("utf-8", "replace")
            return
        yield body[start : at + kept].encode("utf-8", "replace")
        start = at + kept


def parsed(piece: bytes) -> Element:
    """The element that these bytes are. Raises BrokenError where they are none."""
    try:
        return element_of(piece, _PARSERS.parser, **_SAFE)
    except etree.XMLSyntaxError as error:
        raise BrokenError(error.msg or "no XML") from None


class _Parsers(local):
    """A parser for each thread: one that is shared would make them wait for each other."""

    def __init__(self) -> None:
        self.parser = etree.XMLParser(**_SAFE)


_PARSERS = _Parsers()


def rows(text: str, pool: str, tag: str) -> Iterator[Element]:
    """The elements of this tag right inside the pool's; each is emptied when the next is asked for.

    Raises BrokenError where the text breaks off or is no XML. See Note [Names with a colon] in
    merkatd.syntax.lenient_xml.
    """
    count = 0
    try:
        for element in _streamed(text, pool, tag):
            yield element
            count += 1
    except _NameError:
        for number, piece in enumerate(separate(text, pool, tag)):
            if number >= count:
                yield parsed(piece)


class _NameError(Exception):
    """An attribute has a name that is none to lxml."""


def _streamed(text: str, pool: str, tag: str) -> Iterator[Element]:
    """The same. Raises _NameError where nothing but names keeps the text from being read."""
    parsed = etree.iterparse(
        BytesIO(text.encode("utf-8", "replace")),
        events=("end",),
        tag=tag,
        encoding="utf-8",
        **_SAFE,
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
        if only_in_names(parsed.error_log):
            raise _NameError from None
        raise BrokenError(f"{pool}: {error.msg}") from None
    if parsed.root is None or parsed.root.tag != pool:
        raise BrokenError(f"there is no {pool}")


def separate(text: str, pool: str, tag: str) -> Iterator[bytes]:
    """Return the bytes of each element inside the pool's, whatever some of them are.

    They are cut where no text of a user can stand. Raises BrokenError where the pool breaks off.
    """
    body = text.strip().encode("utf-8", "replace")
    head, tail = f"<{pool}>".encode(), f"</{pool}>".encode()
    if not (body.startswith(head) and body.endswith(tail)):
        raise BrokenError(f"{pool} breaks off")
    begin, end = f"<{tag}>".encode(), f"</{tag}>".encode()
    start, stop = len(head), len(body) - len(tail)
    for at in _outside_texts(body, end + begin, start, stop):
        yield body[start : at + len(end)]
        start = at + len(end)
    if start < stop:
        yield body[start:stop]


def _outside_texts(body: bytes, joint: bytes, start: int, stop: int) -> Iterator[int]:
    """Return where the joint stands, but for those in CDATA sections."""
    while start < stop:
        section = body.find(_CDATA, start, stop)
        until = stop if section < 0 else section
        while (at := body.find(joint, start, until)) >= 0:
            yield at
            start = at + 1
        if section < 0:
            return
        end = body.find(_CDATA_END, section, stop)
        start = stop if end < 0 else end + len(_CDATA_END)


def only_child(text: str, tag: str) -> Element:
    """The only element of a text. Raises BrokenError where it is no XML, or another."""
    try:
        element = parsed(text.encode("utf-8", "replace"))
    except BrokenError as error:
        raise BrokenError(f"{tag}: {error}") from None
    if element.tag != tag:
        raise BrokenError(f"a {tag} was expected, not a {element.tag!s}")
    return element


def children(element: Element, *names: str) -> Mapping[str, Element]:
    """The elements inside, by name, or those with these names; of those with one name the first."""
    return {child.tag: child for child in element.iterchildren(*names, reversed=True)}


def first(element: Element, tag: str) -> str | None:
    """The text of the first child with this tag, None where there is none."""
    child = next(element.iterchildren(tag), None)
    return None if child is None else child.text or ""


def optional_text(parts: Mapping[str, Element], name: str) -> str:
    """The text of a part that need not be there."""
    part = parts.get(name)
    return "" if part is None else part.text or ""


def text(parts: Mapping[str, Element], name: str) -> str:
    """The text of a part that must be there, if only empty."""
    part = parts.get(name)
    if part is None:
        raise UnreadableError(f"{name} is missing")
    return part.text or ""


def whole(parts: Mapping[str, Element], name: str) -> int:
    """The whole number in a part that must be there."""
    try:
        number = int(parts[name].text or "")
    except (KeyError, ValueError):
        number = _LARGEST
    if -_LARGEST < number < _LARGEST:
        return number
    raise UnreadableError(f"{name} is {text(parts, name)[:40]!r}, not a whole number")


def object_id(parts: Mapping[str, Element], name: str = "ID") -> int:
    """The id of an object of OpenNebula, in a part that must be there; ids are never negative."""
    number = whole(parts, name)
    if number < 0:
        raise UnreadableError(f"{name} is {number}, and no id is below 0")
    return number


def ids(elements: Iterable[Element]) -> tuple[int, ...]:
    """The ids that the elements hold; what is none is left out."""
    texts = (element.text or "" for element in elements)
    return tuple(int(one) for one in texts if one.isdecimal() and len(one) <= _DIGITS)


def whole_number(found: str | None) -> int | None:
    """The whole number that a text is, None where it is none."""
    try:
        number = int(found or "")
    except ValueError:
        return None
    return number if -_LARGEST < number < _LARGEST else None


def measured(found: str | None) -> float:
    """The number that a text is; 0 where it is none that fits into columns."""
    try:
        number = float(found or "0")
    except ValueError:
        return 0.0
    return number if abs(number) < _MOST else 0.0


def amount(parts: Mapping[str, Element], name: str) -> float:
    """The number above 0 in a part that must be there."""
    return amount_of(text(parts, name), name)


def amount_of(said: str, name: str) -> float:
    """The number above 0 that a text is."""
    try:
        number = float(said)
    except ValueError:
        number = 0.0
    if 0 < number < _MOST:
        return number
    raise UnreadableError(f"{name} is {said[:40]!r}, not a number above 0")
