"""The page's connections without a network: bytes in, bytes out, and a clock of the test."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.settings import ApiSettings
from merkatd.web.base.responses import BrowserRequest, LiveResponse, PageResponse
from merkatd.web.base.served_names import OwnHosts
from merkatd.web.web_server import VisitFactory

_Transport: Any = StringTransport  # Twisted's test helpers have no types
ADDRESS = "192.0.2.1"
HOST = b"Host: localhost\r\n"


class Visits:
    """A port at which a function answers."""

    def __init__(
        self,
        answer: Callable[[BrowserRequest], Awaitable[PageResponse | LiveResponse]],
        proxies: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        self.clock = Clock()
        site: Any = type("Answering", (), {"visit": staticmethod(answer)})
        bounds = ApiSettings(**settings)
        hosts = OwnHosts([ADDRESS])
        self.factory = VisitFactory(
            self.clock, bounds, site, "merkat", hosts, TrustedProxies(proxies), secure=False
        )
        self.factory.startFactory()

    def connect(self, address: str = ADDRESS) -> tuple[Any, Any] | None:
        """Return a connection from this address; None if it is rejected."""
        channel = self.factory.buildProtocol(IPv4Address("TCP", address, 4711))
        if channel is None:
            return None
        transport: Any = _Transport(peerAddress=IPv4Address("TCP", address, 4711))
        transport.abortConnection = transport.loseConnection
        channel.makeConnection(transport)
        return channel, transport

    def say(self, data: bytes, address: str = ADDRESS) -> bytes:
        """Return the answer to these bytes on a connection of their own."""
        made = self.connect(address)
        assert made is not None
        channel, transport = made
        channel.dataReceived(data)
        return bytes(transport.value())
