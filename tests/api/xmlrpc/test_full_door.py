"""A door that is full: those that hold many connections make room for those that hold few."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from merkatd.api.xmlrpc.forwarded import Proxies
from merkatd.api.xmlrpc.known import KnownAddresses
from merkatd.api.xmlrpc.server import CallFactory
from merkatd.api.xmlrpc.settings import Settings

ROOM = 24
HONEST = "192.0.2.1"
PROXY = "192.0.2.200"
CALL = b"POST /RPC2 HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"
_Transport: Any = StringTransport  # Twisted's testing has no types


class Full:
    """A door with few places."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.known = KnownAddresses()
        settings = Settings(connections=ROOM, connections_per_address=ROOM // 2)
        proxies = Proxies([PROXY])
        self.waiting: list[Deferred[bytes]] = []
        self.factory = CallFactory(self.clock, settings, self._answer, proxies, self.known)

    async def _answer(self, _body: bytes, _address: str) -> bytes:
        self.waiting.append(Deferred())
        return await self.waiting[-1]

    def come(self, host: str) -> Any:
        """A connection's transport; None where it is refused."""
        where = IPv4Address("TCP", host, 4711)
        channel = self.factory.buildProtocol(where)
        if channel is None:
            return None
        transport = _Transport(peerAddress=where)
        transport.abortConnection = transport.loseConnection
        channel.makeConnection(transport)
        transport.protocol = channel
        return transport

    def held(self, host: str) -> int:
        """How many connections the address has."""
        return sum(channel.address == host for channel in self.factory.places)


@pytest.fixture
def full() -> Full:
    """Two strange addresses have all places."""
    made = Full()
    for host in ("198.51.100.1", "198.51.100.2") * (ROOM // 2):
        made.clock.advance(0.1)
        assert made.come(host) is not None
    return made


def test_a_newcomer_gets_a_place_of_the_address_that_has_the_most(full: Full) -> None:
    """The one of which nothing was heard for the longest time, once; it has ended then."""
    first = min(full.factory.places, key=lambda channel: channel.heard_s)
    came = [full.come(HONEST) for _ in range(ROOM)]
    assert first not in full.factory.places
    assert first.transport.disconnecting
    assert [full.held(host) for host in ("198.51.100.1", "198.51.100.2", HONEST)] == [8, 8, 8]
    assert [one is not None for one in came] == [True] * 8 + [False] * (ROOM - 8)
    first.connectionLost(None)
    assert full.held("198.51.100.1") == 8


def test_one_that_has_called_stays_longer_than_one_that_has_not(full: Full) -> None:
    """And one whose call is being answered is never ended."""
    quiet, served, busy = sorted(full.factory.places, key=lambda channel: channel.heard_s)[:6:2]
    served.dataReceived(CALL)
    full.waiting.pop().callback(b"")
    busy.dataReceived(CALL)
    for channel in full.factory.places:
        channel.heard_s += 100.0 if channel not in (quiet, served, busy) else 0.0
    for number in range(1, 13):
        assert full.come(f"203.0.113.{number}") is not None
    assert quiet not in full.factory.places
    assert {served, busy} <= set(full.factory.places)


def test_a_user_who_was_here_before_takes_a_strangers_place_always(full: Full) -> None:
    """Strangers with one connection each have all places, and take none of the user's."""
    for number in range(1, ROOM + 1):
        full.come(f"203.0.113.{number}")
    assert max(map(full.held, [one.address for one in full.factory.places])) == 1
    full.known.note(HONEST, 3, full.clock.seconds())
    for _ in range(ROOM // 2):
        assert full.come(HONEST) is not None
    for number in range(100, 200):
        full.come(f"203.0.113.{number}")
    assert full.held(HONEST) == ROOM // 2


def test_a_proxys_connections_are_not_a_strangers(full: Full) -> None:
    """It has many, and they are everybody's."""
    for _ in range(ROOM):
        full.come(PROXY)
    assert full.held(PROXY) == ROOM
    assert full.come("198.51.100.9") is not None


def test_where_every_call_is_being_answered_nobody_comes(full: Full) -> None:
    """They end by themselves."""
    for channel in full.factory.places:
        channel.dataReceived(CALL)
    assert full.come(HONEST) is None
    full.waiting[0].callback(b"")
    assert full.come(HONEST) is not None


def test_a_caller_that_does_not_read_its_answers_makes_room_first(full: Full) -> None:
    """Its calls are answered: nobody is at work for it."""
    for channel in full.factory.places:
        channel.dataReceived(CALL + CALL)
        channel.pauseProducing()
    while full.waiting:
        full.waiting.pop().callback(b"answer")
    assert all(channel.is_unread for channel in full.factory.places)
    idle = min(full.factory.places, key=lambda channel: channel.heard_s)
    idle.resumeProducing()
    full.waiting.pop().callback(b"answer")
    full.known.note(HONEST, 3, full.clock.seconds())
    came = [full.come(HONEST) for _ in range(ROOM // 2)]
    assert None not in came
    assert idle in full.factory.places


@given(st.lists(st.integers(0, 40), max_size=300))
def test_whatever_comes_the_door_holds_no_more_than_it_may(hosts: list[int]) -> None:
    """An address that is refused has as many as any other, or one fewer, or all that it may."""
    full = Full()
    for number in hosts:
        host = f"203.0.113.{number}"
        before = full.held(host)
        came = full.come(host)
        most = max(map(full.held, {one.address for one in full.factory.places}))
        assert len(full.factory.places) <= ROOM
        assert came is not None or before >= min(most, ROOM // 2)
    for channel in full.factory.places:
        channel.connectionLost(None)
    assert len(full.factory.places) == 0
