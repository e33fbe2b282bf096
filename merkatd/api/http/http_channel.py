"""One connection: its calls come one after the other, each within a time."""

from collections.abc import Callable
from typing import Any, Protocol

from twisted.web.http import HTTPChannel

from merkatd.api.http.admission import HELD_S
from merkatd.api.http.connection_places import ByAddress
from merkatd.api.http.http_request import HttpCall, RequestFactory
from merkatd.api.http.settings import ApiSettings

_LENGTH_DIGITS = 18
"""A longer Content-Length is none: Python refuses to read numbers of thousands of digits."""
_IN_A_ROW = 4
"""So many calls of one connection are begun before others have their turn."""


class Connections(RequestFactory, Protocol):
    """What a connection needs of the factory that made it."""

    clock: Any
    settings: ApiSettings
    callers: ByAddress

    def gone(self, channel: "Channel") -> None:
        """A connection has ended."""


class Channel(HTTPChannel):
    """One connection."""

    factory: Connections
    transport: Any

    def __init__(self, factory: Connections, address: str, seconds: Callable[[], float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's web has no types
        self.factory = factory
        self.requestFactory: Any = HttpCall
        self.timeOut = None
        self.address = address
        self.name = address
        """Under which it is counted."""
        self.trusted = False
        """Whether it is a trusted proxy's."""
        self.caller: str | None = None
        """The address whose call is in hand on it, where it is."""
        self._seconds = seconds
        self.heard_s = seconds()
        """When something came last, or was read."""
        self.has_called = False
        """Whether there was a whole call."""
        self._began_s: float | None = self.heard_s
        """When the call that is arriving began to; None between calls."""
        self._answered_call: HttpCall | None = None
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
        self.end_with(b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % status)
        return False

    def takes(self, caller: str) -> bool:
        """Count a call for the address that the proxy names; False where it has enough in hand.

        A proxy that names none is no caller's address: it has no such bound.
        """
        callers = self.factory.callers
        if caller != self.name and callers.has_enough(caller):
            return False
        self.caller = caller
        callers.take(caller, self)
        return True

    def _leaves(self) -> None:
        """Its call is no longer in hand."""
        caller, self.caller = self.caller, None
        if caller is not None:
            self.factory.callers.leave(caller, self)

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
            self._next(request)

    def _next(self, request: Any) -> None:
        if self.persistent:
            self._leaves()
        super().requestDone(request)  # type: ignore[no-untyped-call]  # so it is

    def _go_on(self, request: Any) -> None:
        self._later, self._in_a_row = None, 0
        self.requestDone(request)

    def hold(self, call: HttpCall, answer: bytes) -> None:
        """Answer a call later; until then the caller's next ones stay unread."""
        if not call.is_answered:
            self._is_held = True
            self._later = self.factory.clock.callLater(HELD_S, self._let_go, call, answer)

    def _let_go(self, call: HttpCall, answer: bytes) -> None:
        self._later, self._is_held = None, False
        call.answer(answer)

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Go on: the caller has read what was written."""
        self._in_a_row = 0
        super().resumeProducing()  # type: ignore[no-untyped-call]  # so it is
        request, self._answered_call = self._answered_call, None
        if request is not None:
            self._next(request)

    @property
    def at_work(self) -> bool:
        """Whether a call of it is being answered, and its caller reads its answers."""
        return bool(self._handlingRequest) and not (self.is_unread or self._is_held)

    @property
    def is_unread(self) -> bool:
        """Whether its caller has not read what was answered."""
        return self._answered_call is not None or self._is_ending

    def look_at_the_clock(self, now_s: float) -> None:
        """End what has taken too long."""
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
        """Write this, and end it."""
        self.transport.write(response)
        self.abort_after_writing()

    def abort_after_writing(self) -> None:
        """End it; what arrives meanwhile is not read."""
        self.loseConnection()

    def loseConnection(self) -> None:  # noqa: N802 - Twisted's name
        """End it, as Twisted asks for too. TLS goes on handing over what arrives."""
        self._is_ending = True
        self.heard_s = self._seconds()
        super().loseConnection()  # type: ignore[no-untyped-call]  # so it is

    def abort(self) -> None:
        """End it at once."""
        self.transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802 - Twisted's name
        """It has ended."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._leaves()
        self.factory.gone(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # so it is
