"""A TLS server computes handshakes in turn: strangers neither block users nor use much CPU."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from merkatd.api.http import tls_handshakes
from merkatd.api.http.connection_places import KnownAddresses
from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.http_server import CallFactory, opened
from merkatd.api.http.settings import ApiSettings
from merkatd.api.http.tls_handshakes import Handshakes, TlsFactory, first_message_is_whole
from tests.opennebula.test_https import Authority

AT_ONCE = int(tls_handshakes.PER_ADDRESS_S * tls_handshakes.BURST_S)
HONEST = "192.0.2.1"
PROXY = "192.0.2.200"
STRANGERS = [f"198.51.100.{number}" for number in range(1, 41)]
TOOK_S = 0.01
"""The duration of a handshake with a large RSA key."""
_Transport: Any = StringTransport  # Twisted's testing has no types


class Reactor(Clock):
    """A reactor whose ports only store their factories."""

    listened: Any = None

    def listenTCP(self, port: int, factory: Any, interface: str) -> Any:  # noqa: ARG002, N802
        """Store the factory."""
        self.listened = factory
        return self

    @property
    def socket(self) -> Any:
        """Return a socket without a listener."""
        return Mock()

    def getHost(self) -> IPv4Address:  # noqa: N802
        """Return an address."""
        return IPv4Address("TCP", "127.0.0.1", 2634)


async def answered(_body: bytes, _address: str) -> bytes:
    """Return the same answer to each call."""
    return b"<done/>"


class Door:
    """A port with a certificate and handshakes of a fixed duration."""

    def __init__(self, place: Path, **others: Any) -> None:
        (place / "c.pem").write_bytes(Authority().server("192.0.2.100"))
        self.clock = Reactor()
        settings = ApiSettings(certificate=str(place / "c.pem"), **others)
        self.known = KnownAddresses()
        self.factory = CallFactory(
            self.clock, settings, answered, TrustedProxies([PROXY]), self.known
        )
        opened(self.clock, settings, self.factory, "api")
        self.listening: Any = self.clock.listened
        self._asked = 0
        self.callers: list[Caller] = []
        self.factory.handshakes = Handshakes(self.clock, self.known, self._cpu_s)

    def _cpu_s(self) -> float:
        """Return the CPU time; it is read before and after each handshake."""
        self._asked += 1
        return self.used_s

    @property
    def used_s(self) -> float:
        """Return the CPU time of all handshakes."""
        return TOOK_S * (self._asked // 2)

    def connect(self, host: str) -> "Caller | None":
        """Connect from this address; return None if refused."""
        where = IPv4Address("TCP", host, 4711)
        line = self.listening.buildProtocol(where)
        if line is None:
            return None
        self.callers.append(Caller(line, where))
        return self.callers[-1]

    def close(self) -> None:
        """Disconnect all callers."""
        for caller in self.callers:
            caller.leaves()
        self.clock.advance(1.0)
        assert not self.factory.places


class Caller:
    """The other end of a connection."""

    def __init__(self, line: Any, where: IPv4Address) -> None:
        self.line = line
        self.gone = False
        self.transport: Any = _Transport(peerAddress=where)
        self.transport.abortConnection = self.transport.loseConnection
        self.transport.setTcpNoDelay = bool
        line.makeConnection(self.transport)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out)

    def hello(self) -> bytes:
        """Return the first message of a handshake."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._out.read()

    def says(self, data: bytes) -> None:
        """Send data."""
        self.line.dataReceived(data)

    @property
    def answered(self) -> bool:
        """Return whether the server has started the handshake."""
        return bool(self.transport.value())

    def calls(self) -> bytes:
        """Complete the handshake and return the answer to a call."""
        self._in.write(self.transport.value())
        self.transport.clear()
        self._tls.do_handshake()
        self._tls.write(b"POST /RPC2 HTTP/1.1\r\nContent-Length: 1\r\n\r\nx")
        self.says(self._out.read())
        self._in.write(self.transport.value())
        return self._tls.read(1 << 14)

    def leaves(self) -> None:
        """Disconnect."""
        if not self.gone:
            self.gone = True
            self.line.connectionLost(None)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """Return a port whose clock the test advances."""
    made = Door(tmp_path)
    yield made
    made.close()


def connected(door: Door, host: str) -> Caller:
    """Return a connection that must be accepted."""
    made = door.connect(host)
    assert made is not None
    return made


def test_an_address_opens_a_limited_number_of_connections(door: Door) -> None:
    """Quick ends don't help; other addresses connect meanwhile, and the limit renews."""

    def come(host: str, times: int) -> int:
        made = [door.connect(host) for _ in range(times)]
        for client in made:
            if client is not None:
                client.leaves()
        return sum(client is not None for client in made)

    assert come("192.0.2.2", 3 * AT_ONCE) == AT_ONCE
    assert come("192.0.2.3", 3) == 3
    door.clock.advance(1.0)
    assert come("192.0.2.2", 100) == int(tls_handshakes.PER_ADDRESS_S)
    assert come(PROXY, 5 * AT_ONCE) == 5 * AT_ONCE


def test_connections_that_send_nothing_take_no_turn(door: Door) -> None:
    """Nor do those that send all but the last byte of a first message."""
    for host in STRANGERS:
        for _ in range(8):
            stranger = connected(door, host)
            for byte in stranger.hello()[:-1]:
                stranger.says(bytes([byte]))
            assert not stranger.answered
    assert door.used_s == 0.0
    honest = connected(door, HONEST)
    honest.says(honest.hello())
    assert b"<done/>" in honest.calls()


def test_a_stranger_waits_for_one_handshake_of_each_other_address(door: Door) -> None:
    """Forty addresses with eight handshakes each use only part of the time."""
    for host in STRANGERS * 8:
        stranger = connected(door, host)
        stranger.says(stranger.hello())
    honest = connected(door, HONEST)
    honest.says(honest.hello())
    waited_s = 0.0
    while not honest.answered:
        door.clock.advance(TOOK_S)
        waited_s += TOOK_S
    assert waited_s < len(STRANGERS) * 4.0 * TOOK_S
    assert door.used_s < 0.35 * waited_s + TOOK_S
    assert b"<done/>" in honest.calls()


def test_a_returning_user_does_not_wait_for_strangers(door: Door) -> None:
    """A login within the last hour counts; a user with many addresses counts once."""
    for number, host in enumerate(STRANGERS):
        door.known.note(host, 7 if number < 20 else 100 + number, 0.0)
    door.known.note(HONEST, 8, 0.0)
    for host in [*STRANGERS[:20], *(f"203.0.113.{number}" for number in range(1, 41))] * 4:
        other = connected(door, host)
        other.says(other.hello())
    honest = connected(door, HONEST)
    honest.says(honest.hello())
    door.clock.pump([TOOK_S] * 8)
    assert honest.answered
    door.clock.advance(3_600.0)
    late = connected(door, HONEST)
    late.says(late.hello())
    door.clock.pump([TOOK_S] * 8)
    assert not late.answered, "what was a user's address is a stranger's again"


def test_disconnected_callers_take_no_turn(door: Door) -> None:
    """A handshake already started still counts."""
    waiting = [connected(door, host) for host in STRANGERS]
    for client in waiting:
        client.says(client.hello())
    for client in waiting:
        client.leaves()
    used_s = door.used_s
    honest = connected(door, HONEST)
    honest.says(honest.hello())
    early = honest.answered
    door.clock.advance(3.0 * TOOK_S + 0.001)
    assert (early, honest.answered) == (False, True), "the turns rest, though the asker is gone"
    assert door.used_s == pytest.approx(used_s + TOOK_S)


def test_a_trusted_proxy_waits_for_no_turn(door: Door) -> None:
    """It carries the calls of all users."""
    for host in STRANGERS:
        stranger = connected(door, host)
        stranger.says(stranger.hello())
    proxy = connected(door, PROXY)
    proxy.says(proxy.hello())
    assert proxy.answered


def test_a_refused_connection_ends_before_its_handshake(tmp_path: Path) -> None:
    """Twisted's own factory would wrap the refusal in a handshake."""
    door = Door(tmp_path, connections_per_address=1)
    assert isinstance(door.listening, TlsFactory)
    assert door.connect(HONEST) is not None
    assert door.connect(HONEST) is None
    assert len(door.factory.places) == 1


def test_without_a_certificate_no_connection_is_counted() -> None:
    """A plain connection costs almost no CPU."""
    factory = CallFactory(Clock(), ApiSettings(), answered, TrustedProxies([]))
    for _ in range(5 * AT_ONCE):
        channel = factory.buildProtocol(IPv4Address("TCP", HONEST, 4711))
        assert channel is not None
        factory.gone(channel)


@pytest.mark.parametrize(
    ("early", "expected"),
    [
        (b"", False),
        (b"\x16\x03\x01\x00", False),
        (b"\x16\x03\x01\x00\x02a", False),
        (b"\x16\x03\x01\x00\x02ab", True),
        (b"GET / HTTP/1.1\r\n", True),
        (b"\x16\x03\x01\xff\xff", True),
    ],
)
def test_invalid_records_go_to_openssl_at_once(early: bytes, expected: bool) -> None:
    """An invalid or too long record is not awaited."""
    assert first_message_is_whole(early) is expected
