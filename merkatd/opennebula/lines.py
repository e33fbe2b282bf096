"""Connections to a server over plain TCP, each with one exchange at a time.

oned ends a connection after each call, so that what a connection costs is what a call costs:
here it is a socket and two registrations with the reactor, and no more.
"""

import errno
import os
import socket
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadWriteDescriptor
from zope.interface import implementer  # type: ignore[import-untyped]  # so it is

from merkatd.opennebula.envelope import NoReplyError
from merkatd.opennebula.response import Response

_READ_BYTES = 1 << 18

Address = tuple[socket.AddressFamily, Any]
"""A family and what its sockets connect to."""


class NotConnectedError(ConnectionError):
    """There is no connection: nothing has been sent."""


@implementer(IReadWriteDescriptor)
class Line:
    """A connection."""

    def __init__(self, reactor: Any, address: Address, when_free: Callable[["Line"], None]) -> None:
        """Begin to connect; `when_free` is told each time that another exchange may begin.

        Raises NotConnectedError.
        """
        self.since_s = 0.0
        """When it became free."""
        self._reactor = reactor
        self._when_free = when_free
        self._connected = False
        self._writing = False
        self._left = memoryview(b"")
        """Of the request, what is still to be sent."""
        self._response: Response | None = None
        self._over: Deferred[None] | None = None
        family, where = address
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self.fileno = self._socket.fileno
        code = self._socket.connect_ex(where)
        if code not in {0, errno.EINPROGRESS}:
            self._socket.close()
            raise NotConnectedError(code, os.strerror(code))

    @property
    def usable(self) -> bool:
        """Whether the other side has neither ended it nor said anything that nobody asked for."""
        if self.fileno() < 0:
            return False
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def exchange(self, request: bytes, response: Response) -> Deferred[None]:
        """Send a request and fill the response; fires when that is whole.

        Fails with NotConnectedError, another OSError or NoReplyError.
        """
        over: Deferred[None] = Deferred(lambda _: self.close())
        self._over, self._response, self._left = over, response, memoryview(request)
        self.doWrite()
        return over

    def close(self) -> None:
        """End it; what is under way is never over."""
        if self.fileno() >= 0:
            self._reactor.removeReader(self)
            self._watch_for_room(wanted=False)
            self._socket.close()
        self._over = self._response = None

    def give_up_connecting(self) -> None:
        """Fail where there is no connection yet."""
        if not self._connected:
            self._fail(TimeoutError(errno.ETIMEDOUT, "no connection in time"))

    def doWrite(self) -> None:  # noqa: N802 - Twisted's name
        """Send as much as can be sent now."""
        try:
            sent = self._socket.send(self._left)
        except BlockingIOError:
            self._watch_for_room(wanted=True)
            return
        except OSError as error:
            self._fail(error)
            return
        if not self._connected:
            self._connected = True
            self._reactor.addReader(self)
        self._left = self._left[sent:]
        self._watch_for_room(wanted=len(self._left) > 0)

    def _watch_for_room(self, *, wanted: bool) -> None:
        """Be told by the reactor when more can be sent, or no more."""
        if wanted is not self._writing:
            self._writing = wanted
            (self._reactor.addWriter if wanted else self._reactor.removeWriter)(self)

    def doRead(self) -> None:  # noqa: N802 - Twisted's name
        """Take what has come."""
        response = self._response
        try:
            data = self._socket.recv(_READ_BYTES)
            if response is None:
                # What nobody asked for, or the end of a connection that nobody used.
                self.close()
                return
            if data:
                response.feed(data)
            else:
                response.end()
        except BlockingIOError:
            return
        except (OSError, NoReplyError) as error:
            self._fail(error)
            return
        if response.whole:
            self._succeed(response)

    def _succeed(self, response: Response) -> None:
        over, self._over, self._response = self._over, None, None
        if response.reusable and not self._left:
            self._when_free(self)
        else:
            self.close()
        if over is not None:
            over.callback(None)

    def _fail(self, error: Exception) -> None:
        if not self._connected and isinstance(error, OSError):
            error = NotConnectedError(*error.args)
        over = self._over
        self.close()
        if over is not None:
            over.errback(error)

    def connectionLost(self, reason: Any) -> None:  # noqa: N802 - Twisted's name
        """The reactor gives it up, at its own end; why it does is nothing an answer could say."""
        self._fail(ConnectionAbortedError(errno.ECONNABORTED, f"given up: {reason.value}"))

    def logPrefix(self) -> str:  # noqa: N802 - Twisted's name
        """Whose errors these are."""
        return "opennebula"
