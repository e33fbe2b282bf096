"""One request of a connection: read within bounds, answered once."""

from collections.abc import Callable
from io import BytesIO
from typing import Any, Protocol

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.web.http import Request

from merkatd.api.http.admission import HeldConnection
from merkatd.api.http.forwarded_addresses import Proxies

MANY_AT_ONCE = "Too many calls of this address at a time: try again in a moment."
_XML = b"text/xml; charset=utf-8"
_CLOSE = b"Connection: close\r\n"
_PATHS = frozenset({b"/RPC2", b"/"})
_LET_BY = 64
"""A call so many times too large is read to its end, to be answered; a larger one is cut off."""

_log = Logger()
_Request: Any = Request  # Twisted's web has no types


class Bodies(Protocol):
    """Bodies of answers that a connection gives by itself, in the language of its callers."""

    def too_large(self, most: int) -> bytes:
        """A call has more bytes than it may have."""

    def too_many(self) -> bytes:
        """The address has as many calls in hand as it may have."""

    def late(self) -> bytes:
        """An answer takes too long."""

    def failed(self) -> bytes:
        """An answer could not be made."""


class PlainBodies:
    """Such bodies as plain text."""

    def too_large(self, most: int) -> bytes:
        """A call has more bytes than it may have."""
        return b"a call may have %d bytes at most\n" % most

    def too_many(self) -> bytes:
        """The address has as many calls in hand as it may have."""
        return MANY_AT_ONCE.encode() + b"\n"

    def late(self) -> bytes:
        """An answer takes too long."""
        return b"no answer in time\n"

    def failed(self) -> bytes:
        """An answer could not be made."""
        return b"the daemon failed to answer\n"


class RequestFactory(Protocol):
    """What a request needs of the factory of its connection."""

    answer: Callable[..., Any]
    proxies: Proxies
    body_bytes: int
    bodies: Bodies


class Connection(Protocol):
    """What a request needs of its connection."""

    address: str
    trusted: bool
    persistent: Any
    transport: Any

    @property
    def factory(self) -> RequestFactory:
        """The factory that made it."""

    def takes(self, caller: str) -> bool:
        """Whether an address may have one more call in hand."""

    def hold(self, call: Any, body: bytes) -> None:
        """Answer a call later."""

    def end_with(self, response: bytes) -> None:
        """Send this and close."""


class HttpCall(_Request):  # type: ignore[misc]  # so it is
    """One request."""

    content: BytesIO
    channel: Connection

    def __init__(self, channel: Connection, _queued: object) -> None:
        # A call is no form: looking whether it is one would cost as much as the rest of HTTP.
        super().__init__(channel, parsePOSTFormSubmission=False)

    def gotLength(self, length: int | None) -> None:  # noqa: N802 - Twisted's name
        """The body begins; it never touches a disk."""
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
        """A piece of the body: kept as long as the whole is not too large."""
        self.size += len(data)
        limit = self.channel.factory.body_bytes
        if self.size <= limit:
            self.content.write(data)
        elif self.size > _LET_BY * limit:
            self._cut_off()

    def process(self) -> None:
        """All of it is there."""
        if self._answered:
            return
        if self.path not in _PATHS:
            self._say(404, b"text/plain", b"XML-RPC is spoken at /RPC2\n")
        elif self.method != b"POST":
            said = b"XML-RPC is spoken here, by POST\n"
            self._say(_NOT_ALLOWED, b"text/plain", said, b"Allow: POST\r\n")
        elif self.size > (most := self.channel.factory.body_bytes):
            self.answer(self.channel.factory.bodies.too_large(most))
        else:
            self._running = ensureDeferred(self._run(self.content.getvalue()))
            self._running.addErrback(self._broken)

    def turned_away(self) -> bytes:
        """Return the response where its address has as many calls in hand as it may."""
        said = self.channel.factory.bodies.too_many()
        return self._written(200, _XML, said, _CLOSE)

    @property
    def is_answered(self) -> bool:
        """Whether there was an answer, or the caller has gone."""
        return self._answered

    def answer(self, body: bytes) -> None:
        """Send the answer, unless there was one or the caller has gone."""
        self._say(200, _XML, body)

    def late(self) -> None:
        """It takes too long: say so; what was begun may be done all the same."""
        self.answer(self.channel.factory.bodies.late())
        if self._running is not None:
            self._running.cancel()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        """The caller has gone."""
        self._answered = True
        super().connectionLost(reason)

    async def _run(self, body: bytes) -> None:
        said = await self.channel.factory.answer(body, self.caller())
        if isinstance(said, HeldConnection):
            self.channel.hold(self, said.body)
        else:
            self.answer(said)

    def caller(self) -> str:
        """Return the address that limits count."""
        said = self.requestHeaders.getRawHeaders(b"x-forwarded-for") or []
        caller: str = self.channel.factory.proxies.caller(self.channel.address, said)
        return caller

    def _broken(self, failure: Any) -> None:
        if not self._answered:
            _log.failure("A call could not be answered", failure=failure)
            self.answer(self.channel.factory.bodies.failed())

    def _say(self, code: int, kind: bytes, body: bytes, more: bytes = b"") -> None:
        """The whole response at once: nothing in it needs what Twisted would do for headers."""
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
