"""An XML-RPC reply from its bytes, in small slices: no part holds the interpreter for long.

The standard library's own parser is told each entity of a text by itself; a pool is one text
with millions of them. Here expat joins them before anybody is told.

# Note [Long texts]
The pool of 10,000 hosts is one text of 66 MB. To join its parts in one go, or to give up all of
them in one go, stops every thread for a tenth of a second; and the standard library joins them
once more at the end of each element around the text. So a text grows part by part, each part is
given up as it is taken, and so are the bytes that it was read from.
"""

import xmlrpc.client
from collections.abc import Iterable, Iterator, MutableSequence
from html import unescape
from typing import Any, TypeVar
from xml.parsers.expat import ExpatError, ParserCreate

Part = TypeVar("Part")

HEAD_BYTES = 1 << 12
"""How much is read of a reply that is too long: OpenNebula's own words about its first object."""

_SLICE_BYTES = 1 << 16
_TEXT_BYTES = 1 << 18

_CONTROLS = bytes.maketrans(bytes(byte for byte in range(32) if byte not in b"\t\n\r"), b"?" * 29)
"""Characters that XML can't carry, and that someone's VM may carry all the same."""

_NONSENSE = (
    ExpatError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    xmlrpc.client.Error,
)
"""What the standard library's unmarshaller raises at one or another kind of nonsense."""


class NoReplyError(xmlrpc.client.Error):
    """Bytes that are no XML-RPC reply."""


class TooLongError(NoReplyError):
    """A reply longer than the reader takes; `head` is the part that was read."""

    def __init__(self, most_bytes: int, head: str = "") -> None:
        super().__init__(f"the answer is longer than any should be: more than {most_bytes} bytes")
        self.most_bytes = most_bytes
        self.head = head


def head_of(chunks: Iterable[bytes]) -> str:
    """Return the text that the first bytes of a reply carry, unescaped and without its envelope."""
    read = b"".join(chunks)[:HEAD_BYTES].decode("utf-8", "replace")
    return unescape(read.rpartition("<string>")[2])


def decoded(chunks: MutableSequence[bytes]) -> Any:
    """The value in a reply, whose bytes are given up meanwhile: no chunk is left.

    Raises NoReplyError, or xmlrpc.client.Fault where it is a fault. See Note [Long texts].
    """
    try:
        return _value(chunks)
    except xmlrpc.client.Fault:
        raise
    except _NONSENSE as error:
        raise NoReplyError(f"the answer is no XML-RPC: {error}") from error


def _value(chunks: MutableSequence[bytes]) -> Any:
    values = xmlrpc.client.Unmarshaller(use_builtin_types=True)
    values.xml("", None)
    parser = ParserCreate()
    parser.buffer_text = True
    parser.buffer_size = _TEXT_BYTES
    parts: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        parts.clear()
        values.start(tag, attributes)

    def end(tag: str) -> None:
        values.end_dispatch(tag, _joined(parts))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = parts.append
    parser.StartDoctypeDeclHandler = _refuse_doctype
    for piece in _slices(_taken(chunks)):
        parser.Parse(piece.translate(_CONTROLS), False)
    parser.Parse(b"", True)
    (value,) = values.close()
    return value


def _joined(parts: MutableSequence[str]) -> str:
    """The text of the parts, none of which is left."""
    text = ""
    for part in _taken(parts):
        text += part  # in place: nothing else refers to the text
    return text


def _taken(parts: MutableSequence[Part]) -> Iterator[Part]:
    """One part after another, each of which is forgotten as it is taken."""
    parts.reverse()
    while parts:
        yield parts.pop()


def _refuse_doctype(*_arguments: Any) -> None:
    raise ValueError("a reply has no document type")


def _slices(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), _SLICE_BYTES):
            yield chunk[start : start + _SLICE_BYTES]
