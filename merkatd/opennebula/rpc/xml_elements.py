"""Elements of a pool, parsed on demand and freed one after another.

A pool is cut between its elements, and each piece is parsed by itself. This is faster than event
parsing, a tree is never larger than a VM, and a piece that is not XML spoils no other. If an
owner's text contains the place of a cut, the pieces are not XML: then the pool is parsed as a
stream.
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
    # Tenants write texts of any length: by default libxml2 accepts at most 10 MB of a text.
    "huge_tree": True,
    "no_network": True,
    "remove_comments": True,
    "remove_pis": True,
}
_CDATA, _CDATA_END = b"<![CDATA[", b"]]>"
_DIGITS = 18
_LONGEST_REASON = 200
_LARGEST = 10**_DIGITS
_MOST = 1e15
"""The largest number of a column; no cloud has larger ones."""


class BrokenError(Exception):
    """A text that is incomplete or not XML."""


class UnreadableError(Exception):
    """An element with an invalid value; the message names the element and its text."""


def pieces(text: str, pool: str, tag: str) -> Iterator[bytes] | None:
    """Return the bytes of each element of a pool, None if the text has an unexpected form."""
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
    """Yield the pieces from start to stop, cut in each joint after its first `kept` characters.

    Each piece is encoded by itself: encoding the whole text at once blocks every thread for long.
    """
    while True:
        at = body.find(joint, start, stop)
        if at < 0:
            yield body[start:stop].encode("utf-8", "replace")
            return
        yield body[start : at + kept].encode("utf-8", "replace")
        start = at + kept


def parsed(piece: bytes) -> Element:
    """Parse an element. Raise BrokenError if the bytes are not XML."""
    try:
        return element_of(piece, _PARSERS.parser, **_SAFE)
    except etree.XMLSyntaxError as error:
        raise BrokenError(_shortened(error)) from None


def _shortened(error: etree.XMLSyntaxError) -> str:
    """Return the reason; it can contain a name of any length from an owner's text."""
    reason = error.msg or "not XML"
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."


class _Parsers(local):
    """A parser for each thread: threads would wait for each other with a shared parser."""

    def __init__(self) -> None:
        self.parser = etree.XMLParser(**_SAFE)


_PARSERS = _Parsers()


def rows(text: str, pool: str, tag: str) -> Iterator[Element]:
    """Yield the elements of a pool with this tag; each is freed when the next is requested.

    Raise BrokenError if the text is incomplete or not XML. See Note [Names with a colon] in
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
    """An attribute's name that lxml rejects."""


def _streamed(text: str, pool: str, tag: str) -> Iterator[Element]:
    """Yield the elements of a pool. Raise _NameError if only names make the text unreadable."""
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
            # Skip users' attributes with the same name: users may choose any name.
            if root is None or root.getparent() is not None or root.tag != pool:
                continue
            yield element
            root.remove(element)
    except etree.XMLSyntaxError as error:
        if only_in_names(parsed.error_log):
            raise _NameError from None
        raise BrokenError(f"{pool}: {_shortened(error)}") from None
    if parsed.root is None or parsed.root.tag != pool:
        raise BrokenError(f"{pool} is missing")


def separate(text: str, pool: str, tag: str) -> Iterator[bytes]:
    """Yield the bytes of each element of a pool, even if some of them are not XML.

    They are cut only outside users' texts. Raise BrokenError if the pool is incomplete.
    """
    body = text.strip().encode("utf-8", "replace")
    head, tail = f"<{pool}>".encode(), f"</{pool}>".encode()
    if not (body.startswith(head) and body.endswith(tail)):
        raise BrokenError(f"{pool} is incomplete")
    begin, end = f"<{tag}>".encode(), f"</{tag}>".encode()
    start, stop = len(head), len(body) - len(tail)
    for at in _outside_texts(body, end + begin, start, stop):
        yield body[start : at + len(end)]
        start = at + len(end)
    if start < stop:
        yield body[start:stop]


def _outside_texts(body: bytes, joint: bytes, start: int, stop: int) -> Iterator[int]:
    """Yield the positions of the joint outside CDATA sections."""
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
    """Return the root element of a text. Raise BrokenError if it is not XML or has another tag."""
    try:
        element = parsed(text.encode("utf-8", "replace"))
    except BrokenError as error:
        raise BrokenError(f"{tag}: {error}") from None
    if element.tag != tag:
        raise BrokenError(f"expected an element {tag}, not {element.tag!s}")
    return element


def children(element: Element, *names: str) -> Mapping[str, Element]:
    """Return the child elements by name, all or those with these names; the first of each name."""
    return {child.tag: child for child in element.iterchildren(*names, reversed=True)}


def first(element: Element, tag: str) -> str | None:
    """Return the text of the first child with this tag, None without one."""
    child = next(element.iterchildren(tag), None)
    return None if child is None else child.text or ""


def optional_text(parts: Mapping[str, Element], name: str) -> str:
    """Return the text of an optional part, empty if it is missing."""
    part = parts.get(name)
    return "" if part is None else part.text or ""


def text(parts: Mapping[str, Element], name: str) -> str:
    """Return the text of a part, which may be empty. Raise UnreadableError if it is missing."""
    part = parts.get(name)
    if part is None:
        raise UnreadableError(f"{name} is missing")
    return part.text or ""


def whole(parts: Mapping[str, Element], name: str) -> int:
    """Return the whole number in a part. Raise UnreadableError if there is none."""
    try:
        number = int(parts[name].text or "")
    except (KeyError, ValueError):
        number = _LARGEST
    if -_LARGEST < number < _LARGEST:
        return number
    raise UnreadableError(f"{name} is {text(parts, name)[:40]!r}, not a whole number")


def object_id(parts: Mapping[str, Element], name: str = "ID") -> int:
    """Return the id in a part. Raise UnreadableError if there is none; ids are never negative."""
    number = whole(parts, name)
    if number < 0:
        raise UnreadableError(f"{name} must be at least 0 (got {number})")
    return number


def ids(elements: Iterable[Element]) -> tuple[int, ...]:
    """Return the ids in the elements, without invalid ones."""
    texts = (element.text or "" for element in elements)
    return tuple(int(text) for text in texts if text.isdecimal() and len(text) <= _DIGITS)


def whole_number(digits: str | None) -> int | None:
    """Return the whole number that a text consists of, None if it is none."""
    try:
        number = int(digits or "")
    except ValueError:
        return None
    return number if -_LARGEST < number < _LARGEST else None


def measured(digits: str | None) -> float:
    """Return the number that a text consists of, 0 if it is none or too large."""
    try:
        number = float(digits or "0")
    except ValueError:
        return 0.0
    return number if abs(number) <= _MOST else 0.0


def amount(parts: Mapping[str, Element], name: str) -> float:
    """Return the number above 0 in a part. Raise UnreadableError if there is none."""
    return amount_of(text(parts, name), name)


def amount_of(digits: str, name: str) -> float:
    """Return the number above 0 that a text consists of. Raise UnreadableError if it is none."""
    try:
        number = float(digits)
    except ValueError:
        number = 0.0
    if 0 < number <= _MOST:
        return number
    raise UnreadableError(f"{name} is {digits[:40]!r}, not a number above 0")
