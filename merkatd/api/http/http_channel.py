"""An HTTP connection: it answers its calls in order, each within a time limit."""

from collections.abc import Callable
from typing import Any, Protocol

from twisted.web.http import HTTPChannel

from merkatd.api.http.admission import HELD_S
from merkatd.api.http.connection_places import ConnectionsByAddress
from merkatd.api.http.http_request import HttpCall, RequestFactory
from merkatd.api.http.settings import ApiSettings

_LENGTH_DIGITS = 18
"""The most digits of a Content-Length: Python rejects numbers of thousands of digits."""
_IN_A_ROW = 4
"""The calls of a connection that start in a row before other connections get a turn."""


class Connections(RequestFactory, Protocol):
    """The part of the factory that its connections use."""

    clock: Any
    settings: ApiSettings
    callers: ConnectionsByAddress

    def gone(self, channel: "Channel") -> None:
        """Release the place of a connection that has ended."""


class Channel(HTTPChannel):
    """A connection."""

    factory: Connections
    transport: Any

    def __init__(self, factory: Connections, address: str, seconds: Callable[[], float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's web has no types
        self.factory = factory
        self.requestFactory: Any = HttpCall
        self.timeOut = None
        self.address = address
        self.name = address
        """The name under which the connection is counted."""
        self.trusted = False
        """Whether the connection comes from a trusted proxy."""
        self.caller: str | None = None
        """The address of the unanswered call, if there is such a call."""
        self._seconds = seconds
        self.heard_s = seconds()
        """The last time at which data arrived, or at which the client read data."""
        self.has_called = False
        """Whether a complete call has arrived."""
        self._began_s: float | None = self.heard_s
        """The time at which the arriving call began; None between calls."""
        self._answered_call: HttpCall | None = None
        """The last answered call, while the client has too many unread answers."""
        self._later: Any = None
        """The delayed work: an answer that is held back, or the next of many calls."""
        self._is_held = False
        """Whether the delayed work is an answer."""
        self._in_a_row = 0
        """The calls since data arrived, or since other connections had a turn."""
        self._is_ending = False
        """Whether the connection ends after its last write."""

    def getPeer(self) -> None:  # noqa: N802 - Twisted's name
        """Return nothing: the connection knows the address, and calls are never asked for it."""

    getHost = getPeer  # noqa: N815 - Twisted's name

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Read arriving data, or drop it if the connection is about to end."""
        if self._is_ending:
            return
        self.heard_s = self._seconds()
        if self._began_s is None:
            self._began_s = self.heard_s
        self._in_a_row = 0
        super().dataReceived(data)  # type: ignore[no-untyped-call]  # untyped in Twisted

    def allContentReceived(self) -> None:  # noqa: N802 - Twisted's name
        """Note that the call is complete: from now on the server's time limit applies."""
        self._began_s = None
        self.has_called = True
        super().allContentReceived()  # type: ignore[no-untyped-call]  # untyped in Twisted

    def headerReceived(self, line: bytes) -> bool:  # noqa: N802 - Twisted's name
        """Read a header line; return False if the request is rejected.

        Chunked bodies are rejected: Twisted decodes chunks on the event loop, 10 us each, and a
        megabyte can have 170,000 chunks. XML-RPC clients and browsers send the body's length.
        """
        name, _, value = line.partition(b":")
        named = name.strip().lower()
        if named == b"transfer-encoding":
            return self._refuse(b"411 Length Required")
        if named == b"content-length" and len(value.strip()) > _LENGTH_DIGITS:
            return self._refuse(b"400 Bad Request")
        read: bool = super().headerReceived(line)  # type: ignore[no-untyped-call]  # untyped in Twisted
        return read

    def _refuse(self, status: bytes) -> bool:
        self.end_with(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % status)
        return False

    def takes(self, caller: str) -> bool:
        """Count a call for the address that the proxy names; False if it has too many calls.

        If the proxy names no address, the call counts for the proxy, which has no such bound.
        """
        callers = self.factory.callers
        if caller != self.name and callers.has_enough(caller):
            return False
        self.caller = caller
        callers.take(caller, self)
        return True

    def _leaves(self) -> None:
        """Stop counting the call of this connection's caller."""
        caller, self.caller = self.caller, None
        if caller is not None:
            self.factory.callers.leave(caller, self)

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Read a piece of a body, or of the calls after the present call.

        Without this bound, Twisted reads on without limit while the client reads no answers.
        """
        super().rawDataReceived(data)
        waiting = self._handlingRequest and self._waitingForTransport
        if waiting and sum(map(len, self._dataBuffer)) > self._optimisticEagerReadSize:
            self.transport.pauseProducing()

    def requestDone(self, request: Any) -> None:  # noqa: N802 - Twisted's name
        """Start the next call after the client has read the previous answers.

        Twisted would start it at once: 500 small calls in a packet would leave all their answers
        in memory and block the event loop. After a few calls in a row, other connections get a
        turn.
        """
        self._in_a_row += 1
        if self._waitingForTransport and self.persistent:
            self._answered_call = request
            self.heard_s = self._seconds()
        elif self._in_a_row >= _IN_A_ROW and self.persistent:
            self._later = self.factory.clock.callLater(0, self._go_on, request)
        else:
            self._next(request)

    def _next(self, request: Any) -> None:
        if self.persistent:
            self._leaves()
        super().requestDone(request)  # type: ignore[no-untyped-call]  # untyped in Twisted

    def _go_on(self, request: Any) -> None:
        self._later, self._in_a_row = None, 0
        self.requestDone(request)

    def hold(self, call: HttpCall, answer: bytes) -> None:
        """Answer a call later; until then the client's next calls are not read."""
        if not call.is_answered:
            self._is_held = True
            self._later = self.factory.clock.callLater(HELD_S, self._let_go, call, answer)

    def _let_go(self, call: HttpCall, answer: bytes) -> None:
        self._later, self._is_held = None, False
        call.answer(answer)

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Go on after the client has read the written data."""
        self._in_a_row = 0
        super().resumeProducing()  # type: ignore[no-untyped-call]  # untyped in Twisted
        request, self._answered_call = self._answered_call, None
        if request is not None:
            self._next(request)

    @property
    def at_work(self) -> bool:
        """Return whether a call is being answered, and the client reads its answers."""
        return bool(self._handlingRequest) and not (self.is_unread or self._is_held)

    @property
    def is_unread(self) -> bool:
        """Return whether the client has unread answers."""
        return self._answered_call is not None or self._is_ending

    def look_at_the_clock(self, now_s: float) -> None:
        """End a call or connection that has exceeded its time limit."""
        settings = self.factory.settings
        if self.is_unread:
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

    def end_with(self, response: bytes) -> None:
        """Write a response, then close the connection."""
        self.transport.write(response)
        self.abort_after_writing()

    def abort_after_writing(self) -> None:
        """Close the connection after the last write; drop data that arrives meanwhile."""
        self.loseConnection()

    def loseConnection(self) -> None:  # noqa: N802 - Twisted's name
        """Close the connection; Twisted calls this too. TLS still delivers arriving data."""
        self._is_ending = True
        self.heard_s = self._seconds()
        super().loseConnection()  # type: ignore[no-untyped-call]  # untyped in Twisted

    def abort(self) -> None:
        """Close the connection at once."""
        self.transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802 - Twisted's name
        """Release everything that belongs to the connection."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._leaves()
        self.factory.gone(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # untyped in Twisted
