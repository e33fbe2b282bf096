"""One request of a connection: read within bounds, answered once."""

from io import BytesIO
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.web.http import Request

from merkatd.api.http.admission import Held
from merkatd.api.xmlrpc import codec
from merkatd.api.xmlrpc.errors import FaultCode, RpcFault
from merkatd.service.base.errors import Code, Refusal, TooManyRefusal

if TYPE_CHECKING:
    from merkatd.api.http.http_channel import Channel

MANY_AT_ONCE = "Too many calls of this address at a time: try again in a moment."
_XML = b"text/xml; charset=utf-8"
_CLOSE = b"Connection: close\r\n"
_PATHS = frozenset({b"/RPC2", b"/"})
_LET_BY = 64
"""A call so many times too large is read to its end, to be answered; a larger one is cut off."""

_log = Logger()
_Request: Any = Request  # Twisted's web has no types


class Call(_Request):  # type: ignore[misc]  # so it is
    """One request."""

    content: BytesIO
    channel: "Channel"

    def __init__(self, channel: "Channel", _queued: object) -> None:
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
            text = f"a call may have {most} bytes at most"
            self.answer(codec.fault(RpcFault(FaultCode.TOO_LARGE, text)))
        else:
            self._running = ensureDeferred(self._run(self.content.getvalue()))
            self._running.addErrback(self._broken)

    def turned_away(self) -> bytes:
        """Return the response where its address has as many calls in hand as it may."""
        said = codec.refused("merkat", TooManyRefusal(MANY_AT_ONCE))
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
        text = "No answer in time: what was asked for may have been done or not."
        self.answer(codec.refused("merkat", Refusal(Code.INTERNAL, text)))
        if self._running is not None:
            self._running.cancel()

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        """The caller has gone."""
        self._answered = True
        super().connectionLost(reason)

    async def _run(self, body: bytes) -> None:
        said = await self.channel.factory.answer(body, self.caller())
        if isinstance(said, Held):
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
            text = "the daemon failed to answer; its log says why"
            self.answer(codec.refused("merkat", Refusal(Code.INTERNAL, text)))

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
