"""A reply from its bytes: HTTP, then XML-RPC.

The standard library's own parser is told each entity of a text by itself; a pool is one text
with millions of them. Here expat joins them before anybody is told.

# Note [Long texts]
The pool of 10,000 hosts is one text of 66 MB. To join its parts in one go, or to give up all of
them in one go, stops every thread for a tenth of a second; and the standard library joins them
once more at the end of each element around the text. So a text grows part by part, each part is
given up as it is taken, and so are the bytes that it was read from.

No more of HTTP is known here than a call needs. A response of which it is not certain where it
ends is none, for the next one on its connection would begin at the wrong place.
"""

import re
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


_OK = 200
_INTERIM = range(100, 200)
_HEAD_BYTES = 1 << 16
_LINE_BYTES = 1 << 10
"""The longest line that says how long a chunk is."""
_STATUS = re.compile(rb"HTTP/1\.(\d) (\d{3})(?: |$)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;|$)")
_LENGTH = re.compile(rb"\d{1,18}")
_END_OF_LINE, _END_OF_HEAD = b"\r\n", b"\r\n\r\n"


class Response:
    """What has come so far of a response."""

    def __init__(self, most_bytes: int) -> None:
        """A body may not be longer than `most_bytes`."""
        self.chunks: list[bytes] = []
        """The body."""
        self.size = 0
        """Its bytes."""
        self.whole = False
        self.reusable = False
        """Whether another call may be made on the connection."""
        self._most_bytes = most_bytes
        self._rest = b""
        """What can't be taken before more has come."""
        self._left: int | None = None
        """Bytes of the body, or of a chunk, that are still to come; None: up to the end."""
        self._take = self._take_head

    def feed(self, data: bytes) -> None:
        """Take what came. Raises NoReplyError where this is no answer to a call."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        while data and not self.whole:
            data = self._take(data)
            self._look_at_length()
        if data:
            # Nobody asked for more: whatever it is, it is no answer to the next call.
            self.reusable = False

    def end(self) -> None:
        """Nothing more will come. Raises ConnectionError where something is missing."""
        if self._take == self._take_body and self._left is None:
            self.whole = True
        if not self.whole:
            raise ConnectionAbortedError("the connection was closed before the answer was whole")

    def _take_head(self, data: bytes) -> bytes:
        head, found, body = data.partition(_END_OF_HEAD)
        if len(head) > _HEAD_BYTES:
            raise NoReplyError("the answer's head is longer than any should be")
        if not found:
            self._rest = data
            return b""
        status, *lines = head.split(_END_OF_LINE)
        match = _STATUS.match(status)
        if match is None:
            raise NoReplyError("the answer is no HTTP")
        code = int(match[2])
        if code in _INTERIM:
            return body
        if code != _OK:
            raise NoReplyError(f"the answer is HTTP {code}")
        self._measure(_headers(lines), persistent=match[1] != b"0")
        return body

    def _measure(self, headers: dict[bytes, bytes], *, persistent: bool) -> None:
        """Find out where the body ends."""
        wishes = headers.get(b"connection", b"").lower()
        self.reusable = b"close" not in wishes and (persistent or b"keep-alive" in wishes)
        coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
        if coding is not None:
            if coding.lower() != b"chunked" or length is not None:
                raise NoReplyError("nobody can tell how long the answer is")
            self._take = self._take_size
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise NoReplyError("nobody can tell how long the answer is")
            self._left = int(length)
            self._count(self._left)
            self._take = self._take_body
            self.whole = self._left == 0
        else:
            self.reusable = False
            self._take = self._take_body

    def _take_body(self, data: bytes) -> bytes:
        if self._left is None:
            self._count(len(data))
            self.chunks.append(data)
            return b""
        rest = self._take_some(data, self._left)
        self.whole = self._left == 0
        return rest

    def _take_some(self, data: bytes, left: int) -> bytes:
        """Take up to so many bytes."""
        taken, rest = (data, b"") if len(data) <= left else (data[:left], data[left:])
        self.chunks.append(taken)
        self._left = left - len(taken)
        return rest

    def _take_size(self, data: bytes) -> bytes:
        line, rest = self._line(data)
        if line is None:
            return b""
        match = _SIZE.match(line)
        if match is None:
            raise NoReplyError("the answer is no HTTP: a chunk has no length")
        self._left = int(match[1], 16)
        self._count(self._left)
        self._take = self._take_chunk if self._left else self._take_trailer
        return rest

    def _take_chunk(self, data: bytes) -> bytes:
        if self._left:
            return self._take_some(data, self._left)
        line, rest = self._line(data)
        if line is None:
            return b""
        if line:
            raise NoReplyError("the answer is no HTTP: a chunk is longer than was said")
        self._take = self._take_size
        return rest

    def _take_trailer(self, data: bytes) -> bytes:
        line, rest = self._line(data)
        if line is not None:
            self.whole = not line
        return rest

    def _line(self, data: bytes) -> tuple[bytes | None, bytes]:
        """The line that begins here and what comes after it; None while it is not whole."""
        line, found, rest = data.partition(_END_OF_LINE)
        if len(line) > _LINE_BYTES:
            raise NoReplyError("the answer is no HTTP: a line does not end")
        if not found:
            self._rest = data
            return None, b""
        return line, rest

    def _count(self, more: int) -> None:
        self.size += more

    def _look_at_length(self) -> None:
        """Raise TooLongError as soon as the head of a body that is too long has been read."""
        if self.size <= self._most_bytes:
            return
        if self.whole or sum(map(len, self.chunks)) >= min(HEAD_BYTES, self._most_bytes):
            raise TooLongError(self._most_bytes, head_of(self.chunks))


def _headers(lines: list[bytes]) -> dict[bytes, bytes]:
    """By name in lower case; what is said twice is said in one, as HTTP has it."""
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not colon or not name or name != name.strip():
            raise NoReplyError("the answer is no HTTP: a header has no name")
        value = value.strip()
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers
