"""An HTTP response from its bytes, as they come: told of pieces, it knows when it is whole.

No more of HTTP is known here than a call needs. A response of which it is not certain where it
ends is none, for the next one on its connection would begin at the wrong place.
"""

import re

from merkatd.opennebula.envelope import HEAD_BYTES, NoReplyError, TooLongError, head_of

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
