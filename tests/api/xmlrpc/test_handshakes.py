"""A TLS door refuses connections beyond a rate before it computes their handshakes."""

from pathlib import Path
from typing import Any

import pytest
from OpenSSL import SSL
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from merkatd.api.xmlrpc import handshakes
from merkatd.api.xmlrpc.forwarded import Proxies
from merkatd.api.xmlrpc.handshakes import TlsFactory
from merkatd.api.xmlrpc.server import CallFactory, opened
from merkatd.api.xmlrpc.settings import Settings
from merkatd.api.xmlrpc.tls import ServerContext

AT_ONCE = int(handshakes.PER_ADDRESS_S * handshakes.BURST_S)
ALL_AT_ONCE = int(handshakes.ALL_S * handshakes.BURST_S)


class Reactor(Clock):
    """A reactor whose ports only keep their factories."""

    listened: Any = None

    def listenTCP(self, port: int, factory: Any, interface: str) -> Any:  # noqa: ARG002, N802
        """Keep the factory."""
        self.listened = factory
        return self

    def getHost(self) -> IPv4Address:  # noqa: N802
        """Some address."""
        return IPv4Address("TCP", "127.0.0.1", 2634)


async def answered(_body: bytes, _address: str) -> bytes:
    """No call is made."""
    return b""


@pytest.fixture
def reactor() -> Reactor:
    """It stands still until it is advanced."""
    return Reactor()


def door(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch, certificate: str, **others: Any
) -> tuple[Any, CallFactory]:
    """The factory that listens, and the one of connections."""
    context = ServerContext(SSL.Context(SSL.TLS_SERVER_METHOD))
    monkeypatch.setattr("merkatd.api.xmlrpc.server.context_of", lambda *_: context)
    settings = Settings(certificate=certificate, **others)
    proxies = Proxies(["192.0.2.200"])
    factory = CallFactory(reactor, settings, answered, proxies)
    opened(reactor, settings, factory, "api")
    return reactor.listened, factory


def come(listening: Any, factory: CallFactory, host: str, times: int) -> int:
    """How many of these connections are accepted; each is gone at once."""
    accepted = 0
    for _ in range(times):
        found = listening.buildProtocol(IPv4Address("TCP", host, 4711))
        if found is not None:
            accepted += 1
            for channel in list(factory.channels):
                factory.gone(channel, host)
    return accepted


def test_an_address_begins_so_many_handshakes(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """However quickly it leaves; others come meanwhile, and it comes again later."""
    listening, factory = door(reactor, monkeypatch, str(tmp_path / "c.pem"))
    assert come(listening, factory, "192.0.2.1", 3 * AT_ONCE) == AT_ONCE
    assert come(listening, factory, "192.0.2.2", 3) == 3
    reactor.advance(1.0)
    assert come(listening, factory, "192.0.2.1", 100) == int(handshakes.PER_ADDRESS_S)
    assert come(listening, factory, "192.0.2.200", 5 * AT_ONCE) == 5 * AT_ONCE


def test_all_addresses_begin_so_many_together(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Many strangers use up no more of the event loop than some of it."""
    listening, factory = door(reactor, monkeypatch, str(tmp_path / "c.pem"))
    hosts = [f"198.51.100.{number}" for number in range(1, 21)]
    assert sum(come(listening, factory, one, AT_ONCE) for one in hosts) == ALL_AT_ONCE
    reactor.advance(1.0)
    assert sum(come(listening, factory, one, AT_ONCE) for one in hosts) == int(handshakes.ALL_S)


def test_a_refused_connection_ends_before_its_handshake(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where too many are open: Twisted's own factory would wrap the refusal in a handshake."""
    listening, factory = door(
        reactor, monkeypatch, str(tmp_path / "c.pem"), connections_per_address=1
    )
    where = IPv4Address("TCP", "192.0.2.1", 4711)
    assert isinstance(listening, TlsFactory)
    assert listening.buildProtocol(where) is not None
    assert listening.buildProtocol(where) is None
    assert len(factory.channels) == 1


def test_without_a_certificate_no_handshake_is_counted(
    reactor: Reactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain connection costs next to nothing."""
    listening, factory = door(reactor, monkeypatch, "")
    assert come(listening, factory, "192.0.2.1", 5 * AT_ONCE) == 5 * AT_ONCE
