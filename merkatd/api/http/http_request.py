"""A request of a connection: read within bounds, answered once."""

from collections.abc import Callable
from io import BytesIO
from typing import Any, Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.web.http import Request

from merkatd.api.http.admission import HeldConnection
from merkatd.api.http.forwarded_addresses import TrustedProxies

MANY_AT_ONCE = "Too many calls of this address at a time: try again in a moment."
_XML = b"text/xml; charset=utf-8"
_CLOSE = b"Connection: close\r\n"
_PATHS = frozenset({b"/RPC2", b"/"})
_LET_BY = 64
"""A call up to this many times too large is read to its end, so that it gets an answer. The server
cuts off a larger call."""

_log = Logger()
_Request: Any = Request  # Twisted's web has no types


class Bodies(Protocol):
    """The error bodies that a connection sends by itself, in the protocol of its callers."""

    def too_large(self, most: int) -> bytes:
        """Return the body for a call of more than `most` bytes."""

    def too_many(self) -> bytes:
        """Return the body for a call of an address that has too many unanswered calls."""

    def late(self) -> bytes:
        """Return the body for an answer that takes too long."""

    def failed(self) -> bytes:
        """Return the body for a call that failed."""


class PlainBodies:
    """The error bodies as plain text."""

    def too_large(self, most: int) -> bytes:
        """Return the body for a call of more than `most` bytes."""
        return b"a call must have at most %d bytes\n" % most

    def too_many(self) -> bytes:
        """Return the body for a call of an address that has too many unanswered calls."""
        return MANY_AT_ONCE.encode() + b"\n"

    def late(self) -> bytes:
        """Return the body for an answer that takes too long."""
        return b"no answer in time\n"

    def failed(self) -> bytes:
        """Return the body for a call that failed."""
        return b"the daemon failed to answer\n"


class RequestFactory(Protocol):
    """The part of a connection's factory that its requests use."""

    answer: Callable[..., Any]
    proxies: TrustedProxies
    body_bytes: int
    bodies: Bodies


class Connection(Protocol):
    """The part of a connection that its requests use."""

    address: str
    trusted: bool
    persistent: Any
    transport: Any

    @property
    def factory(self) -> RequestFactory:
        """Return the factory of the connection."""

    def takes(self, caller: str) -> bool:
        """Count a call of an address; return whether the address may have it."""

    def hold(self, call: Any, body: bytes) -> None:
        """Answer a call later."""

    def end_with(self, response: bytes) -> None:
        """Send a response, then close the connection."""


class HttpCall(_Request):  # type: ignore[misc]  # untyped in Twisted
    """An HTTP request."""

    content: BytesIO
    channel: Connection

    def __init__(self, channel: Connection, _queued: object) -> None:
        # A call is never a form: parsing it as a form would cost as much as the rest of HTTP.
        super().__init__(channel, parsePOSTFormSubmission=False)

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
        """Prepare for the body, which is stored in memory only."""
        self.content = BytesIO()
        self.size = 0
        self._running: Deferred[None] | None = None
        self._answered = False
        if self.channel.trusted and not self.channel.takes(self.caller()):
            self._answered = True
            self.channel.end_with(self.turned_away())
        elif length is not None and length > _LET_BY * self.channel.factory.body_bytes:
            self._cut_off()

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Store a piece of the body, unless the whole body is too large."""
        self.size += len(data)
        limit = self.channel.factory.body_bytes
        if self.size <= limit:
            self.content.write(data)
        elif self.size > _LET_BY * limit:
            self._cut_off()

    def process(self) -> None:
        """Answer the complete request."""
        if self._answered:
            return
        if self.path not in _PATHS:
            self._say(404, b"text/plain", b"Send XML-RPC calls to /RPC2.\n")
        elif self.method != b"POST":
            text = b"Send XML-RPC calls by POST.\n"
            self._say(_NOT_ALLOWED, b"text/plain", text, b"Allow: POST\r\n")
        elif self.size > (most := self.channel.factory.body_bytes):
            self.answer(self.channel.factory.bodies.too_large(most))
        else:
            self._running = ensureDeferred(self._run(self.content.getvalue()))
            self._running.addErrback(self._broken)

    def turned_away(self) -> bytes:
        """Return the response for a call of an address that has too many unanswered calls."""
        answer = self.channel.factory.bodies.too_many()
        return self._written(200, _XML, answer, _CLOSE)

    @property
    def is_answered(self) -> bool:
        """Return whether an answer was sent, or the caller has gone."""
        return self._answered

    def answer(self, body: bytes) -> None:
        """Send the answer, unless another answer was sent or the caller has gone."""
        self._say(200, _XML, body)

    def late(self) -> None:
        """Answer that the call takes too long, and cancel it; it may still take effect."""
        self.answer(self.channel.factory.bodies.late())
        if self._running is not None:
            self._running.cancel()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        """Note that the caller has gone."""
        self._answered = True
        super().connectionLost(reason)

    async def _run(self, body: bytes) -> None:
        reply = await self.channel.factory.answer(body, self.caller())
        if isinstance(reply, HeldConnection):
            self.channel.hold(self, reply.body)
        else:
            self.answer(reply)

    def caller(self) -> str:
        """Return the address that limits count."""
        headers = self.requestHeaders.getRawHeaders(b"x-forwarded-for") or []
        caller: str = self.channel.factory.proxies.caller(self.channel.address, headers)
        return caller

    def _broken(self, failure: Any) -> None:
        if not self._answered:
            _log.failure("A call could not be answered", failure=failure)
            self.answer(self.channel.factory.bodies.failed())

    def _say(self, code: int, kind: bytes, body: bytes, more: bytes = b"") -> None:
        """Write the whole response at once: it needs none of Twisted's header processing."""
        if self._answered:
            return
        self._answered = True
        self.startedWriting = 1
        last = b"" if self.channel.persistent else _CLOSE
        self.channel.transport.write(self._written(code, kind, body, more + last))
        self.finish()

    def _written(self, code: int, kind: bytes, body: bytes, more: bytes) -> bytes:
        head = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n" % (
            code,
            _REASONS[code],
            kind,
            len(body),
            more,
        )
        return head if self.method == b"HEAD" else head + body

    def _cut_off(self) -> None:
        if not self._answered:
            self._answered = True
            self.channel.end_with(
                b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )


_NOT_ALLOWED = 405
_REASONS = {
    200: b"OK",
    404: b"Not Found",
    _NOT_ALLOWED: b"Method Not Allowed",
    413: b"Content Too Large",
    503: b"Service Unavailable",
}
