"""An XML-RPC reply from its bytes, in small slices: no part holds the interpreter for long.

The standard library's own parser is told each entity of a text by itself; a pool is one text
with millions of them. Here expat joins them before anybody is told.
"""

import xmlrpc.client
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

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


def decoded(chunks: Iterable[bytes]) -> Any:
    """The value in a reply. Raises NoReplyError, or xmlrpc.client.Fault where it is a fault."""
    try:
        return _value(chunks)
    except xmlrpc.client.Fault:
        raise
    except _NONSENSE as error:
        raise NoReplyError(f"the answer is no XML-RPC: {error}") from error


def _value(chunks: Iterable[bytes]) -> Any:
    values = xmlrpc.client.Unmarshaller(use_builtin_types=True)
    values.xml("", None)
    parser = ParserCreate()
    parser.buffer_text = True
    parser.buffer_size = _TEXT_BYTES
    parser.StartElementHandler = values.start
    parser.EndElementHandler = values.end
    parser.CharacterDataHandler = values.data
    parser.StartDoctypeDeclHandler = _refuse_doctype
    for piece in _slices(chunks):
        parser.Parse(piece.translate(_CONTROLS), False)
    parser.Parse(b"", True)
    (value,) = values.close()
    return value


def _refuse_doctype(*_arguments: Any) -> None:
    raise ValueError("a reply has no document type")


def _slices(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), _SLICE_BYTES):
            yield chunk[start : start + _SLICE_BYTES]
