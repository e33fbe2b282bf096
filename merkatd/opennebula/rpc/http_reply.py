"""The parser of replies: HTTP, then XML-RPC.

The standard library's XML-RPC parser handles each entity of a text by itself, and a pool is a text
with millions of them. Here expat joins them before they are handled.

# Note [Long texts]
The pool of 10,000 hosts is a single text of 66 MB. Joining all its parts at once, or freeing all of
them at once, stops every thread for 0.1 s. The standard library also joins them again at the end of
each enclosing element. So the text grows part by part; each part, and the bytes from which it was
read, is freed as soon as it is appended.

The HTTP parser supports only what calls need. A response whose end is uncertain is rejected,
because the next response on its connection would begin at the wrong place.
"""

import re
import xmlrpc.client
from collections.abc import Iterable, Iterator, MutableSequence
from html import unescape
from typing import Any, TypeVar
from xml.parsers.expat import ExpatError, ParserCreate

Part = TypeVar("Part")
HEAD_BYTES = 1 << 12
"""The bytes read of a too long reply: OpenNebula's own record of its first object."""
_SLICE_BYTES = 1 << 16
_TEXT_BYTES = 1 << 18
_CONTROLS = bytes.maketrans(bytes(byte for byte in range(32) if byte not in b"\t\n\r"), b"?" * 29)
"""A table that replaces control characters. XML forbids them, but users' texts may have them."""
_NONSENSE = (
    ExpatError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    xmlrpc.client.Error,
)
"""The errors that the standard library's unmarshaller raises for invalid replies."""


class NoReplyError(xmlrpc.client.Error):
    """Bytes that are not an XML-RPC reply."""


class TooLongError(NoReplyError):
    """A too long reply; `head` is its beginning."""

    def __init__(self, most_bytes: int, head: str = "") -> None:
        super().__init__(f"the answer has more than {most_bytes} bytes, the most that are accepted")
        self.most_bytes = most_bytes
        self.head = head


def head_of(chunks: Iterable[bytes]) -> str:
    """Return the text in the first bytes of a reply, unescaped and without the envelope."""
    read = b"".join(chunks)[:HEAD_BYTES].decode("utf-8", "replace")
    return unescape(read.rpartition("<string>")[2])


def decoded(chunks: MutableSequence[bytes]) -> Any:
    """Return the value of a reply, and free its bytes on the way: `chunks` is empty afterwards.

    Raise NoReplyError, or xmlrpc.client.Fault if the reply is a fault. See Note [Long texts].
    """
    try:
        return _value(chunks)
    except xmlrpc.client.Fault:
        raise
    except _NONSENSE as error:
        raise NoReplyError(f"the answer is not XML-RPC: {error}") from error


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
    """Join the parts and return their text; `parts` is empty afterwards."""
    text = ""
    for part in _taken(parts):
        text += part  # in place: nothing else refers to the text
    return text


def _taken(parts: MutableSequence[Part]) -> Iterator[Part]:
    """Yield each part and remove it from the sequence."""
    parts.reverse()
    while parts:
        yield parts.pop()


def _refuse_doctype(*_arguments: Any) -> None:
    raise ValueError("it must not have a document type")


def _slices(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), _SLICE_BYTES):
            yield chunk[start : start + _SLICE_BYTES]


_OK = 200
_INTERIM = range(100, 200)
_HEAD_BYTES = 1 << 16
_LINE_BYTES = 1 << 10
"""The most bytes of a line with a chunk's length."""
_STATUS = re.compile(rb"HTTP/1\.(\d) (\d{3})(?: |$)")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;|$)")
_LENGTH = re.compile(rb"\d{1,18}")
_END_OF_LINE, _END_OF_HEAD = b"\r\n", b"\r\n\r\n"


class Response:
    """A response that is being received."""

    def __init__(self, most_bytes: int) -> None:
        """Accept a body of at most `most_bytes`."""
        self.chunks: list[bytes] = []
        """The received parts of the body."""
        self.size = 0
        """The announced or received bytes of the body."""
        self.whole = False
        self.reusable = False
        """Whether the connection can be used for another call."""
        self._most_bytes = most_bytes
        self._rest = b""
        """Received bytes that can't be parsed before more are received."""
        self._left: int | None = None
        """Missing bytes of the body or of a chunk; None if the body ends with the connection."""
        self._take = self._take_head

    def feed(self, data: bytes) -> None:
        """Parse received bytes. Raise NoReplyError if they are not an answer to a call."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        while data and not self.whole:
            data = self._take(data)
            self._look_at_length()
        if data:
            # Bytes after the response belong to no call: the connection can't be trusted.
            self.reusable = False

    def end(self) -> None:
        """Handle the end of the connection. Raise ConnectionError if the response is incomplete."""
        if self._take == self._take_body and self._left is None:
            self.whole = True
        if not self.whole:
            raise ConnectionAbortedError("the connection was closed before the answer was complete")

    def _take_head(self, data: bytes) -> bytes:
        head, separator, body = data.partition(_END_OF_HEAD)
        if len(head) > _HEAD_BYTES:
            raise NoReplyError(f"the answer's head must have at most {_HEAD_BYTES} bytes")
        if not separator:
            self._rest = data
            return b""
        status, *lines = head.split(_END_OF_LINE)
        match = _STATUS.match(status)
        if match is None:
            raise NoReplyError("the answer is not HTTP")
        code = int(match[2])
        if code in _INTERIM:
            return body
        if code != _OK:
            raise NoReplyError(f"the answer's HTTP status must be {_OK} (got {code})")
        self._measure(_headers(lines), persistent=match[1] != b"0")
        return body

    def _measure(self, headers: dict[bytes, bytes], *, persistent: bool) -> None:
        """Determine from the headers how the body ends."""
        wishes = headers.get(b"connection", b"").lower()
        self.reusable = b"close" not in wishes and (persistent or b"keep-alive" in wishes)
        coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
        if coding is not None:
            if coding.lower() != b"chunked" or length is not None:
                raise NoReplyError("the answer's length is not certain")
            self._take = self._take_size
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise NoReplyError("the answer's length is not certain")
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
        """Take up to `left` bytes and return the rest."""
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
            raise NoReplyError("the answer is not HTTP: a chunk has no length")
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
            raise NoReplyError("the answer is not HTTP: a chunk is longer than its length")
        self._take = self._take_size
        return rest

    def _take_trailer(self, data: bytes) -> bytes:
        line, rest = self._line(data)
        if line is not None:
            self.whole = not line
        return rest

    def _line(self, data: bytes) -> tuple[bytes | None, bytes]:
        """Return the next line, None while it is incomplete, and the bytes after it."""
        line, separator, rest = data.partition(_END_OF_LINE)
        if len(line) > _LINE_BYTES:
            raise NoReplyError("the answer is not HTTP: a line does not end")
        if not separator:
            self._rest = data
            return None, b""
        return line, rest

    def _count(self, more: int) -> None:
        self.size += more

    def _look_at_length(self) -> None:
        """Raise TooLongError as soon as the head of a too long body has been received."""
        if self.size <= self._most_bytes:
            return
        if self.whole or sum(map(len, self.chunks)) >= min(HEAD_BYTES, self._most_bytes):
            raise TooLongError(self._most_bytes, head_of(self.chunks))


def _headers(lines: list[bytes]) -> dict[bytes, bytes]:
    """Return the headers by name in lower case; repeated headers are joined, as in HTTP."""
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name = name.lower()
        if not colon or not name or name != name.strip():
            raise NoReplyError("the answer is not HTTP: a header has no name")
        value = value.strip()
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers
