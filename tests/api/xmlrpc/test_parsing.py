"""Calls cost the event loop little at a time, and nothing where their caller is over a limit."""

import xmlrpc.client as wire
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from merkatd.api.http.admission import HeldConnection
from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.http_channel import Channel
from merkatd.api.http.http_server import CallFactory
from merkatd.api.http.settings import ApiSettings
from merkatd.api.xmlrpc import codec
from merkatd.api.xmlrpc.codec import claimed_session
from merkatd.api.xmlrpc.dispatch import Dispatch
from merkatd.service.base.identity import SignIns
from tests.api.xmlrpc.test_admission import EVIL, GOOD, HOME, OpenNebula
from tests.api.xmlrpc.test_pipelined import Unread

GOOD_LOGIN = next(iter(GOOD))
UNKNOWN = b"<methodCall><methodName>no.such</methodName></methodCall>"
BIG, SMALL = 256 * 1024, 300
TURN_BYTES = 24 * 1024
"""More than is parsed in any turn: some three milliseconds' work."""
BURST_BYTES = 2_000 * 1024
PER_S_BYTES = 500 * 1024


def values(size: int) -> bytes:
    """A call of nothing but empty values."""
    head = b"<methodCall><methodName>merkat.price.info</methodName><params><param><value><array>"
    tail = b"</array></value></param></params></methodCall>"
    inner = b"<value/>" * ((size - len(head) - len(tail)) // 8 - 2)
    return head + b"<data>" + inner + b"</data>" + tail


class Turns(Clock):
    """An event loop whose turns are counted: what is begun in one for later waits for the next."""

    def __init__(self) -> None:
        super().__init__()
        self.parsed = 0
        """Bytes, in this turn."""

    def turn(self) -> None:
        """One turn."""
        self.parsed = 0
        now_s = self.seconds()
        due = [one for one in self.calls if one.getTime() <= now_s]
        for one in due:
            if one.active():
                self.calls.remove(one)
                one.called = 1
                one.func(*one.args, **one.kw)


class Scene:
    """A dispatch, and what became of calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = clock = Turns()
        self.total = 0
        self.said: list[Any] = []
        sign_ins = SignIns(OpenNebula(), clock, kept_s=10.0, refusal_kept_s=2.0)
        house: Any = SimpleNamespace(sign_ins=sign_ins, version="1")
        self.dispatch = Dispatch(house, ApiSettings(), clock)
        feed = codec.Taking.feed

        def counting(taking: codec.Taking, piece: bytes, *, last: bool) -> None:
            clock.parsed += len(piece)
            self.total += len(piece)
            feed(taking, piece, last=last)

        monkeypatch.setattr(codec.Taking, "feed", counting)

    def send(self, body: bytes, address: str) -> list[Any]:
        """Where the answer to a call will be."""
        said: list[Any] = []
        Deferred.fromCoroutine(self.dispatch.answer(body, address)).addCallback(said.append)
        self.said.append(said)
        return said

    def know(self, address: str) -> None:
        """The user signs in from there."""
        self.send(wire.dumps((GOOD_LOGIN,), "merkat.system.version").encode(), address)
        assert self.dispatch.admission.knows(GOOD_LOGIN)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A dispatch."""
    return Scene(monkeypatch)


@pytest.mark.parametrize("size", [SMALL, 4_000, 15_000, BIG])
def test_a_stranger_has_so_many_bytes_parsed_and_no_more(scene: Scene, size: int) -> None:
    """A burst, and so much in each second after it; in none of the turns more than a little."""
    body = values(size)
    for _ in range(4):
        for _ in range(2 * BURST_BYTES // size):
            scene.clock.parsed = 0
            scene.send(body, EVIL)
            assert scene.clock.parsed < TURN_BYTES
        while scene.dispatch._parsing._waiting:
            scene.clock.turn()
            assert scene.clock.parsed < TURN_BYTES
        scene.clock.advance(1.0)
    assert 0 < scene.total <= BURST_BYTES + 3 * PER_S_BYTES + BIG
    # Each is answered, those over the limit later.
    assert all(len(said) == 1 for said in scene.said)
    assert any(isinstance(said[0], HeldConnection) for said in scene.said)


def test_another_address_waits_for_pieces_not_for_calls(scene: Scene) -> None:
    """Twenty large calls are being parsed: a small one is read within a turn or two."""
    large = [scene.send(values(BIG), EVIL) for _ in range(7)]
    small = scene.send(UNKNOWN, HOME)
    scene.clock.turn()
    scene.clock.turn()
    assert b"-506" in small[0]
    assert large == [[]] * 7
    while scene.dispatch._parsing._waiting:
        scene.clock.turn()
    assert all(b"faultCode" in said[0] for said in large)


def test_a_user_is_served_at_an_address_over_its_limit(scene: Scene) -> None:
    """Also behind the same router as a flood, and in its turn."""
    scene.know(EVIL)
    for body in (values(15_000), UNKNOWN):
        for _ in range(200):
            scene.send(body, EVIL)
    refused = scene.send(UNKNOWN, EVIL)
    assert isinstance(refused[0], HeldConnection)
    version = wire.dumps((GOOD_LOGIN,), "merkat.system.version").encode()
    served = scene.send(version, EVIL)
    scene.clock.turn()
    scene.clock.turn()
    assert b"<boolean>1</boolean>" in served[0]


def test_a_call_that_is_given_up_is_parsed_no_further(scene: Scene) -> None:
    """Its time is over."""
    running = Deferred.fromCoroutine(scene.dispatch.answer(values(BIG), EVIL))
    running.addErrback(lambda _: None)
    scene.clock.turn()
    running.cancel()
    before = scene.total
    while scene.dispatch._parsing._waiting:
        scene.clock.turn()
    assert scene.total == before


def test_a_whole_large_call_is_read_as_a_small_one_is(scene: Scene) -> None:
    """Piece by piece: values, faults and all."""
    big = wire.dumps((GOOD_LOGIN, ["x" * 100, 1.5, "ä<&"] * 1_000), "merkat.none").encode()
    assert codec.call_of(big, 16).arguments[0] == GOOD_LOGIN
    found: list[Any] = []
    taking = Deferred.fromCoroutine(scene.dispatch._parsing.call_of(big, HOME))
    taking.addCallback(found.append)
    while not found:
        scene.clock.turn()
    assert found == [codec.call_of(big, 16)]


@pytest.mark.parametrize("session", ["ann:pw", "ann:<&>\"'", "änn:ß😀", "", "a b:  c"])
def test_the_session_string_is_seen_before_the_call_is_parsed(session: str) -> None:
    """As the standard library writes it; without its type, too."""
    body = wire.dumps((session, 1), "merkat.price.info", encoding="utf-8").encode()
    assert claimed_session(body) == session
    plain = body.replace(b"<string>", b"").replace(b"</string>", b"")
    assert claimed_session(plain) == session


def test_no_session_is_seen_where_there_is_none() -> None:
    """Nor does it matter how long the rest is."""
    assert claimed_session(values(BIG)) == ""
    assert claimed_session(b"<params>" * 30_000) == ""
    assert claimed_session(b"<params>" + b" " * BIG) == ""


class Connection:
    """A connection through which many calls come at once."""

    def __init__(self, answer: Any) -> None:
        self.clock = Turns()
        factory = CallFactory(self.clock, ApiSettings(), answer, TrustedProxies(()))
        where = IPv4Address("TCP", EVIL, 4711)
        self.factory = factory
        self.channel: Channel = factory.buildProtocol(where)
        self.transport = Unread(peerAddress=where)
        self.channel.makeConnection(self.transport)

    def answers(self) -> int:
        """How many there were."""
        return int(self.transport.value().count(b"HTTP/1.1 200 OK"))


REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


async def at_once(_body: bytes, _address: str) -> bytes:
    """A short answer."""
    return b"x"


async def over(_body: bytes, _address: str) -> HeldConnection:
    """An answer to a caller over a limit."""
    return HeldConnection(b"x")


def test_many_small_calls_of_a_connection_give_way_to_others() -> None:
    """A few are answered in each turn, and all in the end."""
    one = Connection(at_once)
    one.channel.dataReceived(REQUEST * 100)
    assert 0 < one.answers() < 10
    before = one.answers()
    while one.answers() < 100:
        one.clock.turn()
        assert before < one.answers() < before + 10
        before = one.answers()
    one.channel.dataReceived(REQUEST)
    one.clock.turn()
    assert one.answers() == 101


def test_a_caller_over_a_limit_is_answered_later_and_not_read_meanwhile() -> None:
    """Two calls a second and connection; such a connection makes room for others."""
    one = Connection(over)
    one.channel.dataReceived(REQUEST * 100)
    one.channel.dataReceived(REQUEST * 1_000)
    assert one.transport.producerState == "paused"
    assert not one.channel.at_work
    assert one.answers() == 0
    for second in range(1, 6):
        one.clock.advance(0.5)
        one.clock.advance(0.5)
        assert one.answers() == 2 * second


def test_an_answer_held_back_ends_with_its_connection() -> None:
    """No timer is left of it."""
    one = Connection(over)
    one.channel.dataReceived(REQUEST)
    assert one.clock.calls
    one.channel.connectionLost()
    assert one.clock.calls == []
