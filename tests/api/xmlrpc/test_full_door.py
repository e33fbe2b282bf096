"""A full server: addresses with many connections make room for those with few."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from merkatd.api.http.admission import HeldConnection
from merkatd.api.http.connection_places import KnownAddresses
from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.http_server import CallFactory
from merkatd.api.http.settings import ApiSettings

ROOM = 24
HONEST = "192.0.2.1"
PROXY = "192.0.2.200"
CALL = b"POST /RPC2 HTTP/1.1\r\nContent-Length: 1\r\n\r\nx"


def _for(caller: str) -> bytes:
    return b"X-Forwarded-For: " + caller.encode()


def _call_for(caller: str) -> bytes:
    return CALL.replace(b"\r\n\r\n", b"\r\n%s\r\n\r\n" % _for(caller))


_Transport: Any = StringTransport  # Twisted's testing has no types


class Full:
    """A server with room for few connections."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.known = KnownAddresses()
        settings = ApiSettings(connections=ROOM, connections_per_address=ROOM // 2)
        proxies = TrustedProxies([PROXY])
        self.waiting: list[Deferred[bytes]] = []
        self.held_back = False
        """Whether each call is over its caller's limits."""
        self.factory = CallFactory(self.clock, settings, self._answer, proxies, self.known)

    async def _answer(self, _body: bytes, _address: str) -> bytes | HeldConnection:
        if self.held_back:
            return HeldConnection(b"")
        self.waiting.append(Deferred())
        return await self.waiting[-1]

    def come(self, host: str) -> Any:
        """Connect from an address; return the transport, or None if refused."""
        where = IPv4Address("TCP", host, 4711)
        channel = self.factory.buildProtocol(where)
        if channel is None:
            return None
        transport = _Transport(peerAddress=where)
        transport.abortConnection = transport.loseConnection
        channel.makeConnection(transport)
        transport.protocol = channel
        return transport

    def call(self, caller: str) -> Any:
        """Make a call over the trusted proxy for this address; return its transport or None."""
        transport = self.come(PROXY)
        if transport is not None:
            transport.protocol.dataReceived(_call_for(caller))
        return transport

    def held(self, host: str) -> int:
        """Return the number of the address's connections."""
        return sum(channel.address == host for channel in self.factory.places)


@pytest.fixture
def full() -> Full:
    """Return a full server with the connections of two strange addresses."""
    made = Full()
    for host in ("198.51.100.1", "198.51.100.2") * (ROOM // 2):
        made.clock.advance(0.1)
        assert made.come(host) is not None
    return made


def test_a_new_address_gets_a_place_of_the_address_with_the_most(full: Full) -> None:
    """The connection idle for the longest time is closed, once."""
    first = min(full.factory.places, key=lambda channel: channel.heard_s)
    came = [full.come(HONEST) for _ in range(ROOM)]
    assert first not in full.factory.places
    assert first.transport.disconnecting
    assert [full.held(host) for host in ("198.51.100.1", "198.51.100.2", HONEST)] == [8, 8, 8]
    assert [reply is not None for reply in came] == [True] * 8 + [False] * (ROOM - 8)
    first.connectionLost(None)
    assert full.held("198.51.100.1") == 8


def test_a_connection_with_a_call_stays_longer_than_one_without(full: Full) -> None:
    """A connection with a call in progress is never closed."""
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


def test_a_known_user_always_gets_a_strangers_place(full: Full) -> None:
    """Strangers with one connection each hold all places and take none of the user's."""
    for number in range(1, ROOM + 1):
        full.come(f"203.0.113.{number}")
    assert max(map(full.held, [place.address for place in full.factory.places])) == 1
    full.known.note(HONEST, 3, full.clock.seconds())
    for _ in range(ROOM // 2):
        assert full.come(HONEST) is not None
    for number in range(100, 200):
        full.come(f"203.0.113.{number}")
    assert full.held(HONEST) == ROOM // 2


def test_a_proxys_connections_do_not_count_as_a_strangers(full: Full) -> None:
    """It has many connections, for all users."""
    for _ in range(ROOM):
        full.come(PROXY)
    assert full.held(PROXY) == ROOM
    assert full.come("198.51.100.9") is not None


def test_a_server_busy_with_calls_accepts_no_connection(full: Full) -> None:
    """Its connections end by themselves."""
    for channel in full.factory.places:
        channel.dataReceived(CALL)
    assert full.come(HONEST) is None
    full.waiting[0].callback(b"")
    assert full.come(HONEST) is not None


def test_a_caller_that_does_not_read_its_answers_makes_room_first(full: Full) -> None:
    """Its calls are answered, so no work is lost."""
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


def test_the_server_continues_if_a_closing_caller_does_not_read() -> None:
    """Its connection ends after a timeout, or makes room."""
    full = Full()
    full.factory.startFactory()
    transport = full.come(HONEST)
    transport.protocol.dataReceived(CALL.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
    transport.protocol.pauseProducing()
    transport.abortConnection = lambda: transport.protocol.connectionLost(None)
    full.waiting.pop().callback(b"answer")
    assert transport.disconnecting
    assert not transport.protocol.at_work
    full.clock.pump([1.0] * 100)
    assert len(full.factory.places) == 0


class TestBehindAProxy:
    """Behind a proxy the bound on an address's connections is a bound on its calls."""

    EVIL, ANN = "198.51.100.7", "198.51.100.8"

    def test_a_call_over_the_bound_is_answered_at_once_and_disconnected(self) -> None:
        """It is not processed; calls of other addresses are."""
        full = Full()
        for _ in range(ROOM // 2):
            assert b"HTTP" not in full.call(self.EVIL).value()
        refused = full.call(self.EVIL)
        assert b"Connection: close\r\n" in refused.value()
        assert b"Too many calls of this address at a time" in refused.value()
        assert refused.disconnecting
        empty = full.come(PROXY)
        empty.protocol.dataReceived(_call_for(self.EVIL).replace(b"Length: 1", b"Length: 0")[:-1])
        assert b"Too many calls of this address at a time" in empty.value()
        assert len(full.waiting) == ROOM // 2
        assert not full.call(self.ANN).disconnecting
        assert len(full.waiting) == ROOM // 2 + 1

    @pytest.mark.parametrize("how", ["answered", "gone", "body"])
    def test_a_call_counts_until_its_answer_or_the_end_of_its_connection(self, how: str) -> None:
        """It counts from its headers on, so also if its body never arrives."""
        full = Full()
        some = [full.call(self.EVIL) for _ in range(ROOM // 2 - 1)]
        slow = full.come(PROXY)
        head = b"POST /RPC2 HTTP/1.1\r\nContent-Length: 9\r\n%s\r\n\r\n" % _for(self.EVIL)
        slow.protocol.dataReceived(head)
        assert full.call(self.EVIL).disconnecting
        if how == "answered":
            full.waiting[0].callback(b"")
        elif how == "gone":
            some[0].protocol.connectionLost(None)
        else:
            slow.protocol.connectionLost(None)
        assert not full.call(self.EVIL).disconnecting
        assert full.call(self.EVIL).disconnecting
        for channel in full.factory.places:
            channel.connectionLost(None)
        assert len(full.factory.callers) == 0

    def test_calls_of_several_addresses_on_one_connection_count_for_each(self) -> None:
        """A proxy keeps its connections."""
        full = Full()
        kept = full.come(PROXY)
        for caller in (self.EVIL, self.ANN) * ROOM:
            kept.protocol.dataReceived(_call_for(caller))
            assert [full.factory.callers.held(caller) for caller in (self.EVIL, self.ANN)] == [
                caller == self.EVIL,
                caller == self.ANN,
            ]
            full.waiting.pop().callback(b"")
            full.clock.advance(0)
        assert not kept.disconnecting

    def test_a_proxy_that_names_no_address_has_no_such_bound(self) -> None:
        """The proxy's own connections don't count."""
        full = Full()
        for _ in range(ROOM):
            transport = full.come(PROXY)
            transport.protocol.dataReceived(CALL)
            assert not transport.disconnecting

    @pytest.mark.parametrize("slow", [False, True])
    def test_a_full_server_ends_calls_of_the_address_with_the_most(self, slow: bool) -> None:
        """They are delayed or incomplete calls; calls of other addresses continue."""
        full = Full()
        full.held_back = True
        callers = [self.EVIL] * 11 + ["203.0.113.5"] * 8 + ["203.0.113.6"] * 4
        calls = [full.call(caller) for caller in callers]
        if slow:
            head = b"POST /RPC2 HTTP/1.1\r\nContent-Length: 9\r\n%s\r\n\r\n"
            for transport in calls:
                transport.protocol.connectionLost(None)
            calls = [full.come(PROXY) for _ in callers]
            for transport, caller in zip(calls, callers, strict=True):
                transport.protocol.dataReceived(head % _for(caller))
        full.held_back = False
        ann = full.call(self.ANN)
        assert len(full.factory.places) == ROOM
        bob = full.call("203.0.113.8")
        assert bob is not None
        assert not ann.disconnecting
        ended = [caller for caller, call in zip(callers, calls, strict=True) if call.disconnecting]
        assert ended == [self.EVIL]
        assert len(full.factory.places) == ROOM

    def test_a_full_server_ends_strangers_calls_before_known_ones(self) -> None:
        """This holds even if a known address, over its limits, has more of them."""
        full = Full()
        full.held_back = True
        full.known.note("203.0.113.5", 3, full.clock.seconds())
        known = [full.call("203.0.113.5") for _ in range(ROOM // 2)]
        for _ in range(4):
            full.call(self.EVIL)
        full.held_back = False
        for _ in range(ROOM // 2):
            assert full.call(self.ANN) is not None
        assert not any(channel.disconnecting for channel in known)

    def test_a_full_server_with_calls_in_progress_accepts_no_connection(self) -> None:
        """It keeps connections that the proxy may use for its next call."""
        full = Full()
        for number in range(ROOM - 1):
            full.call(f"203.0.113.{number}")
        kept = full.come(PROXY)
        assert full.come(PROXY) is None
        assert not kept.disconnecting


@given(st.lists(st.integers(0, 40), max_size=300))
def test_the_server_never_exceeds_its_connections(hosts: list[int]) -> None:
    """A refused address has as many as any other, one fewer, or all that it may have."""
    full = Full()
    for number in hosts:
        host = f"203.0.113.{number}"
        before = full.held(host)
        came = full.come(host)
        most = max(map(full.held, {place.address for place in full.factory.places}))
        assert len(full.factory.places) <= ROOM
        assert came is not None or before >= min(most, ROOM // 2)
    for channel in full.factory.places:
        channel.connectionLost(None)
    assert len(full.factory.places) == 0
