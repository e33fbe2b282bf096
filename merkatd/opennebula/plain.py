"""Calls over plain HTTP: connections that the server leaves open are used again."""

import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import SplitResult

from twisted.internet.abstract import isIPAddress, isIPv6Address
from twisted.internet.threads import deferToThreadPool

from merkatd.opennebula.lines import Address, Line, NotConnectedError
from merkatd.opennebula.response import Response

_PORT = 80
_IDLE_S = 10.0
"""How long a connection that nobody uses is kept: less than the 15 s after which oned ends it."""
_KNOWN_S = 60.0
"""How long a name is not looked up again."""
_CONNECT_S = 2.0
"""How long one address may take to answer where there are others."""

_IN_NUMBERS: Sequence[tuple[socket.AddressFamily, Callable[[str], bool]]] = (
    (socket.AF_INET, isIPAddress),
    (socket.AF_INET6, isIPv6Address),
)


class PlainHttp:
    """The way to one server."""

    def __init__(self, reactor: Any, url: SplitResult, *, connections: int) -> None:
        """Keep up to so many `connections`."""
        self._reactor = reactor
        self._connections = connections
        self._addresses = _Addresses(reactor, url.hostname or "", url.port or _PORT)
        self._free: list[Line] = []
        path = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
        self._head = (
            f"POST {path} HTTP/1.1\r\nHost: {url.netloc.rpartition('@')[2]}\r\n"
            "User-Agent: merkatd\r\nContent-Type: text/xml\r\nContent-Length: "
        ).encode("ascii")

    async def exchange(self, body: bytes, most_bytes: int) -> list[bytes]:
        """The body of the answer, in pieces, up to `most_bytes`. Raises OSError or NoReplyError."""
        request = b"%s%d\r\n\r\n%s" % (self._head, len(body), body)
        response = Response(most_bytes)
        line = self._kept()
        if line is not None:
            await line.exchange(request, response)
        else:
            await self._anew(request, response)
        return response.chunks

    async def close(self) -> None:
        """End the connections that nobody uses."""
        for line in self._free:
            line.close()
        self._free.clear()

    async def _anew(self, request: bytes, response: Response) -> None:
        """Over a new connection, to the first of the server's addresses that can be reached."""
        failure: NotConnectedError | None = None
        left = await self._addresses.known()
        while left:
            address, *left = left
            try:
                line = Line(self._reactor, address, self._keep)
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

    def _keep(self, line: Line) -> None:
        line.since_s = self._reactor.seconds()
        self._free = [one for one in self._free if one.usable]
        if len(self._free) < self._connections:
            self._free.append(line)
        else:
            line.close()

    def _kept(self) -> Line | None:
        """The connection that was used last, if the server will not have ended it."""
        while self._free:
            line = self._free.pop()
            if line.usable and self._reactor.seconds() - line.since_s < _IDLE_S:
                return line
            line.close()
        return None


class _Addresses:
    """Where a server can be reached; one that is given in numbers is not looked up."""

    def __init__(self, reactor: Any, host: str, port: int) -> None:
        self._reactor = reactor
        self._host = host
        self._port = port
        self._given = [(family, (host, port)) for family, is_one in _IN_NUMBERS if is_one(host)]
        self._found: list[Address] = []
        self._until_s = 0.0

    async def known(self) -> list[Address]:
        """All of them, the one that answered last first. Raises OSError where there is none."""
        if self._given:
            return self._given
        if self._reactor.seconds() >= self._until_s:
            look_up = partial(socket.getaddrinfo, self._host, self._port, type=socket.SOCK_STREAM)
            threads = self._reactor.getThreadPool()
            rows = await deferToThreadPool(self._reactor, threads, look_up)
            best = self._found[:1]
            found = [(family, address) for family, _, _, _, address in rows]
            self._found = sorted(found, key=lambda address: address not in best)
            self._until_s = self._reactor.seconds() + _KNOWN_S
        return list(self._found)

    def prefer(self, address: Address) -> None:
        """Try this one first from now on."""
        self._found.sort(key=lambda other: other != address)

    def forget(self) -> None:
        """Look the name up again before it is used."""
        self._until_s = 0.0
