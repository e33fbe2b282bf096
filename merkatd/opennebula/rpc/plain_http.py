"""Plain HTTP over persistent connections.

oned closes a connection after each call, so the cost of a connection is the cost of a call. Here a
connection costs only a socket and two registrations with the reactor.
"""

import errno
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import SplitResult

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.internet.threads import deferToThreadPool
from zope.interface import implementer  # type: ignore[import-untyped]  # so it is

from merkatd.opennebula.rpc.http_reply import NoReplyError, Response

_READ_BYTES = 1 << 18
Address = tuple[socket.AddressFamily, Any]
"""An address family and an address for its sockets."""


class NotConnectedError(ConnectionError):
    """A failed connection: nothing was sent."""


@implementer(IReadWriteDescriptor)
class HttpConnection:
    """A connection to a server."""

    def __init__(
        self, reactor: Any, address: Address, when_free: Callable[["HttpConnection"], None]
    ) -> None:
        """Start to connect. Raise NotConnectedError.

        `when_free` is called each time the connection can be used for another exchange.
        """
        self.since_s = 0.0
        """The time at which the connection became free."""
        self._reactor = reactor
        self._when_free = when_free
        self._connected = False
        self._writing = False
        self._left = memoryview(b"")
        """The bytes of the request that are not sent yet."""
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
        """Return whether the connection is open, without unrequested bytes from the server."""
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
        """Send a request and receive the response; the result fires when that is complete.

        It fails with NotConnectedError, another OSError or NoReplyError.
        """
        over: Deferred[None] = Deferred(lambda _: self.close())
        self._over, self._response, self._left = over, response, memoryview(request)
        self.doWrite()
        return over

    def close(self) -> None:
        """Close the connection; the result of a running exchange never fires."""
        if self.fileno() >= 0:
            self._reactor.removeReader(self)
            self._watch_for_room(wanted=False)
            self._socket.close()
        self._over = self._response = None

    def give_up_connecting(self) -> None:
        """Fail if the connection is not established yet."""
        if not self._connected:
            self._fail(TimeoutError(errno.ETIMEDOUT, "no connection in time"))

    def doWrite(self) -> None:  # noqa: N802 - Twisted's name
        """Send as many bytes as possible."""
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
        """Start or stop watching for the moment when more bytes can be sent."""
        if wanted is not self._writing:
            self._writing = wanted
            (self._reactor.addWriter if wanted else self._reactor.removeWriter)(self)

    def doRead(self) -> None:  # noqa: N802 - Twisted's name
        """Receive bytes."""
        response = self._response
        try:
            data = self._socket.recv(_READ_BYTES)
            if response is None:
                # Unrequested bytes, or the end of an idle connection.
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
        """Fail when the reactor drops the connection, for example at its own end."""
        self._fail(ConnectionAbortedError(errno.ECONNABORTED, f"given up: {reason.value}"))

    def logPrefix(self) -> str:  # noqa: N802 - Twisted's name
        """Return the prefix of the connection's log lines."""
        return "opennebula"


_PORT = 80
_IDLE_S = 10.0
"""How long an idle connection is kept: less than the 15 s after which oned closes it."""
_KNOWN_S = 60.0
"""How long a resolved name is kept."""
_CONNECT_S = 2.0
"""How long an address may take to answer if there are others."""
_IN_NUMBERS: Sequence[tuple[socket.AddressFamily, Callable[[str], bool]]] = (
    (socket.AF_INET, isIPAddress),
    (socket.AF_INET6, isIPv6Address),
)


class PlainHttp:
    """The HTTP client of a server."""

    def __init__(self, reactor: Any, url: SplitResult, *, connections: int) -> None:
        """Keep at most this number of idle `connections`."""
        self._reactor = reactor
        self._connections = connections
        self._addresses = _Addresses(reactor, url.hostname or "", url.port or _PORT)
        self._free: list[HttpConnection] = []
        path = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {url.netloc.rpartition('@')[2]}\r\n"
            "User-Agent: merkatd\r\nContent-Type: text/xml\r\nContent-Length: "
        ).encode("ascii")

    async def exchange(self, body: bytes, most_bytes: int) -> list[bytes]:
        """Send a request and return the answer's body of at most `most_bytes`, in pieces.

        Raise OSError or NoReplyError.
        """
        request = b"%s%d\r\n\r\n%s" % (self._head, len(body), body)
        response = Response(most_bytes)
        line = self._kept()
        if line is not None:
            await line.exchange(request, response)
        else:
            await self._anew(request, response)
        return response.chunks

    async def close(self) -> None:
        """Close all idle connections."""
        for line in self._free:
            line.close()
        self._free.clear()

    async def _anew(self, request: bytes, response: Response) -> None:
        """Exchange over a new connection to the first reachable address of the server."""
        failure: NotConnectedError | None = None
        left = await self._addresses.known()
        while left:
            address, *left = left
            try:
                line = HttpConnection(self._reactor, address, self._keep)
                alarm = (
                    self._reactor.callLater(_CONNECT_S, line.give_up_connecting) if left else None
                )
                try:
                    await line.exchange(request, response)
                finally:
                    if alarm is not None and alarm.active():
                        alarm.cancel()
            except NotConnectedError as error:
                failure = failure or error
            else:
                self._addresses.prefer(address)
                return
        self._addresses.forget()
        raise failure or NotConnectedError("the server's name has no address")

    def _keep(self, line: HttpConnection) -> None:
        line.since_s = self._reactor.seconds()
        self._free = [connection for connection in self._free if connection.usable]
        if len(self._free) < self._connections:
            self._free.append(line)
        else:
            line.close()

    def _kept(self) -> HttpConnection | None:
        """Return the connection that was used last, None if the server may have closed it."""
        while self._free:
            line = self._free.pop()
            if line.usable and self._reactor.seconds() - line.since_s < _IDLE_S:
                return line
            line.close()
        return None


class _Addresses:
    """The addresses of a server; a numeric address is not resolved."""

    def __init__(self, reactor: Any, host: str, port: int) -> None:
        self._reactor = reactor
        self._host = host
        self._port = port
        self._given = [(family, (host, port)) for family, is_one in _IN_NUMBERS if is_one(host)]
        self._found: list[Address] = []
        self._until_s = 0.0

    async def known(self) -> list[Address]:
        """Return all addresses, the last reachable one first. Raise OSError if there is none."""
        if self._given:
            return self._given
        if self._reactor.seconds() >= self._until_s:
            look_up = partial(socket.getaddrinfo, self._host, self._port, type=socket.SOCK_STREAM)
            threads = self._reactor.getThreadPool()
            rows = await deferToThreadPool(self._reactor, threads, look_up)
            best = self._found[:1]
            addresses = [(family, address) for family, _, _, _, address in rows]
            self._found = sorted(addresses, key=lambda address: address not in best)
            self._until_s = self._reactor.seconds() + _KNOWN_S
        return list(self._found)

    def prefer(self, address: Address) -> None:
        """Try this address first from now on."""
        self._found.sort(key=lambda other: other != address)

    def forget(self) -> None:
        """Resolve the name again before its next use."""
        self._until_s = 0.0
