"""One connection and its calls: what is too large is let go by, what is too slow is ended."""

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger
from twisted.web.http import HTTPChannel, Request

from merkatd.api.xmlrpc import encoding
from merkatd.api.xmlrpc.held import HELD_S, Held
from merkatd.api.xmlrpc.words import Code, FaultCode, Refusal, RpcFault

if TYPE_CHECKING:
    from merkatd.api.xmlrpc.server import CallFactory

_PATHS = frozenset({b"/RPC2", b"/"})
_LENGTH_DIGITS = 18
"""A longer Content-Length is none: Python refuses to read numbers of thousands of digits."""
_LET_BY = 64
"""A call so many times too large is read to its end, to be answered; a larger one is cut off."""

_IN_A_ROW = 4
"""So many calls of one connection are begun before others have their turn."""

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
        if length is not None and length > _LET_BY * self.channel.factory.body_bytes:
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
        if self.path not in _PATHS:
            self._say(404, b"text/plain", b"XML-RPC is spoken at /RPC2\n")
        elif self.method != b"POST":
            said = b"XML-RPC is spoken here, by POST\n"
            self._say(_NOT_ALLOWED, b"text/plain", said, b"Allow: POST\r\n")
        elif self.size > (most := self.channel.factory.body_bytes):
            text = f"a call may have {most} bytes at most"
            self.answer(encoding.fault(RpcFault(FaultCode.TOO_LARGE, text)))
        else:
            self._running = ensureDeferred(self._run(self.content.getvalue()))
            self._running.addErrback(self._broken)

    @property
    def is_answered(self) -> bool:
        """Whether there was an answer, or the caller has gone."""
        return self._answered

    def answer(self, body: bytes) -> None:
        """Send the answer, unless there was one or nobody is there any more."""
        self._say(200, b"text/xml; charset=utf-8", body)

    def late(self) -> None:
        """It takes too long: say so; what was begun may be done all the same."""
        text = "No answer in time: what was asked for may have been done or not."
        self.answer(encoding.refused("merkat", Refusal(Code.INTERNAL, text)))
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
            self.answer(encoding.refused("merkat", Refusal(Code.INTERNAL, text)))

    def _say(self, code: int, kind: bytes, body: bytes, more: bytes = b"") -> None:
        """The whole response at once: nothing in it needs what Twisted would do for headers."""
        if self._answered:
            return
        self._answered = True
        self.startedWriting = 1
        last = b"" if self.channel.persistent else b"Connection: close\r\n"
        head = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s%s\r\n" % (
            code,
            _REASONS[code],
            kind,
            len(body),
            more,
            last,
        )
        self.channel.transport.write(head if self.method == b"HEAD" else head + body)
        self.finish()

    def _cut_off(self) -> None:
        if not self._answered:
            self._answered = True
            self.channel.transport.write(
                b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            )
            self.channel.abort_after_writing()


_NOT_ALLOWED = 405
_REASONS = {
    200: b"OK",
    404: b"Not Found",
    _NOT_ALLOWED: b"Method Not Allowed",
    413: b"Content Too Large",
    503: b"Service Unavailable",
}


class Channel(HTTPChannel):
    """One connection."""

    factory: "CallFactory"
    transport: Any

    def __init__(self, factory: "CallFactory", address: str, seconds: Callable[[], float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's web has no types
        self.factory = factory
        self.requestFactory: Any = Call
        self.timeOut = None
        self.address = address
        self.name = address
        """Under which it is counted."""
        self.trusted = False
        """Whether it is a trusted proxy's."""
        self._seconds = seconds
        self.heard_s = seconds()
        """When something came last, or was read."""
        self.has_called = False
        """Whether there was a whole call."""
        self._began_s: float | None = self.heard_s
        """When the call that is arriving began to; None between calls."""
        self._answered_call: Call | None = None
        """The last call, while the caller has not read enough of its answers."""
        self._later: Any = None
        """What goes on later: an answer that is held back, or the next of many calls."""
        self._is_held = False
        """Whether it is an answer."""
        self._in_a_row = 0
        """Calls since something arrived, or since others had their turn."""
        self._is_ending = False
        """Whether it ends once all is written."""

    def getPeer(self) -> None:  # noqa: N802 - Twisted's name
        """Nobody asks a call for it: the connection knows the address."""

    getHost = getPeer  # noqa: N815 - Twisted's name

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Something arrives; it is dropped where the connection is about to end."""
        if self._is_ending:
            return
        self.heard_s = self._seconds()
        if self._began_s is None:
            self._began_s = self.heard_s
        self._in_a_row = 0
        super().dataReceived(data)  # type: ignore[no-untyped-call]  # so it is

    def allContentReceived(self) -> None:  # noqa: N802 - Twisted's name
        """A call has arrived: from now on it is ours to be quick."""
        self._began_s = None
        self.has_called = True
        super().allContentReceived()  # type: ignore[no-untyped-call]  # so it is

    def headerReceived(self, line: bytes) -> bool:  # noqa: N802 - Twisted's name
        """Read one header; False where the request is refused.

        Chunks are refused: Twisted decodes them on the event loop, 10 us each, and a megabyte can
        be 170,000 of them. XML-RPC clients and browsers state the length of what they send.
        """
        name, _, value = line.partition(b":")
        named = name.strip().lower()
        if named == b"transfer-encoding":
            return self._refuse(b"411 Length Required")
        if named == b"content-length" and len(value.strip()) > _LENGTH_DIGITS:
            return self._refuse(b"400 Bad Request")
        read: bool = super().headerReceived(line)  # type: ignore[no-untyped-call]  # so it is
        return read

    def _refuse(self, status: bytes) -> bool:
        head = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % status
        self.transport.write(head)
        self.abort_after_writing()
        return False

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Take a piece of a body, or of the calls that come after the present one.

        Twisted reads on, without a bound, while answers wait for the caller to read them.
        """
        super().rawDataReceived(data)
        waiting = self._handlingRequest and self._waitingForTransport
        if waiting and sum(map(len, self._dataBuffer)) > self._optimisticEagerReadSize:
            self.transport.pauseProducing()

    def requestDone(self, request: Any) -> None:  # noqa: N802 - Twisted's name
        """Begin the next call, once the caller has read what was answered before.

        Twisted begins it at once: 500 small calls in one packet would leave all their answers in
        memory, and hold the event loop. After a few in a row others get a turn.
        """
        self._in_a_row += 1
        if self._waitingForTransport and self.persistent:
            self._answered_call = request
            self.heard_s = self._seconds()
        elif self._in_a_row >= _IN_A_ROW and self.persistent:
            self._later = self.factory.clock.callLater(0, self._go_on, request)
        else:
            super().requestDone(request)  # type: ignore[no-untyped-call]  # so it is

    def _go_on(self, request: Any) -> None:
        self._later, self._in_a_row = None, 0
        self.requestDone(request)

    def hold(self, call: Call, answer: bytes) -> None:
        """Answer a call later; until then the caller's next ones stay unread."""
        if not call.is_answered:
            self._is_held = True
            self._later = self.factory.clock.callLater(HELD_S, self._let_go, call, answer)

    def _let_go(self, call: Call, answer: bytes) -> None:
        self._later, self._is_held = None, False
        call.answer(answer)

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Go on: the caller has read what was written."""
        self._in_a_row = 0
        super().resumeProducing()  # type: ignore[no-untyped-call]  # so it is
        request, self._answered_call = self._answered_call, None
        if request is not None:
            super().requestDone(request)  # type: ignore[no-untyped-call]  # so it is

    @property
    def at_work(self) -> bool:
        """Whether a call of it is being answered, and its caller reads its answers."""
        return bool(self._handlingRequest) and not (self.is_unread or self._is_held)

    @property
    def is_unread(self) -> bool:
        """Whether its caller has not read what was answered."""
        return self._answered_call is not None

    def look_at_the_clock(self, now_s: float) -> None:
        """End what has taken too long."""
        settings = self.factory.settings
        if self._answered_call is not None:
            if now_s - self.heard_s > settings.idle_s:
                self.abort()
        elif self._handlingRequest:
            if now_s - self.heard_s > settings.answer_s:
                self.requests[0].late()
        elif self._began_s is not None:
            if now_s - self._began_s > settings.call_s:
                self.abort()
        elif now_s - self.heard_s > settings.idle_s:
            self.abort()

    def abort_after_writing(self) -> None:
        """End it; what arrives meanwhile is not read."""
        self.loseConnection()

    def loseConnection(self) -> None:  # noqa: N802 - Twisted's name
        """End it, as Twisted asks for too. TLS goes on handing over what arrives."""
        self._is_ending = True
        super().loseConnection()  # type: ignore[no-untyped-call]  # so it is

    def abort(self) -> None:
        """End it at once."""
        self.transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802 - Twisted's name
        """It has ended."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self.factory.gone(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # so it is
