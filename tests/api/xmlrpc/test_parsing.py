"""Parsing takes little time in each turn of the event loop, and none above a limit."""

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
BIG = 256 * 1024
TURN_BYTES = 24 * 1024
"""More bytes than any turn parses: some three milliseconds' work."""
BURST_BYTES = 2_000 * 1024
PER_S_BYTES = 500 * 1024


def values(size: int) -> bytes:
    """Return a call with empty values only."""
    head = b"<methodCall><methodName>merkat.price.info</methodName><params><param><value><array>"
    tail = b"</array></value></param></params></methodCall>"
    inner = b"<value/>" * ((size - len(head) - len(tail)) // 8 - 2)
    return head + b"<data>" + inner + b"</data>" + tail


class Turns(Clock):
    """An event loop with counted turns: work scheduled in a turn waits for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.parsed = 0
        """The bytes of this turn."""

    def turn(self) -> None:
        """Run one turn."""
        self.parsed = 0
        now_s = self.seconds()
        due = [call for call in self.calls if call.getTime() <= now_s]
        for call in due:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class Scene:
    """A dispatch and the results of its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = clock = Turns()
        self.total = 0
        self.answers: list[Any] = []
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
        """Make a call and return the list that receives its answer."""
        answers: list[Any] = []
        Deferred.fromCoroutine(self.dispatch.answer(body, address)).addCallback(answers.append)
        self.answers.append(answers)
        return answers

    def know(self, address: str) -> None:
        """Sign the user in from this address."""
        self.send(wire.dumps((GOOD_LOGIN,), "merkat.system.version").encode(), address)
        assert self.dispatch.admission.knows(GOOD_LOGIN)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Return a dispatch."""
    return Scene(monkeypatch)


@pytest.mark.parametrize("size", [4_000, BIG])
def test_the_bytes_parsed_for_a_stranger_are_limited(scene: Scene, size: int) -> None:
    """A burst is allowed, then a rate; each turn parses only a little."""
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
    # Each call is answered, calls over the limit later.
    assert all(len(answers) == 1 for answers in scene.answers)
    assert any(isinstance(answers[0], HeldConnection) for answers in scene.answers)


def test_another_address_waits_for_pieces_instead_of_calls(scene: Scene) -> None:
    """While twenty large calls are parsed, a small one takes a turn or two."""
    large = [scene.send(values(BIG), EVIL) for _ in range(7)]
    small = scene.send(UNKNOWN, HOME)
    scene.clock.turn()
    scene.clock.turn()
    assert b"-506" in small[0]
    assert large == [[]] * 7
    while scene.dispatch._parsing._waiting:
        scene.clock.turn()
    assert all(b"faultCode" in answers[0] for answers in large)


def test_a_user_is_served_at_an_address_over_its_limit(scene: Scene) -> None:
    """The user may share a router with a flood, and is served in turn."""
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


def test_an_abandoned_call_is_parsed_no_further(scene: Scene) -> None:
    """Its time is over."""
    running = Deferred.fromCoroutine(scene.dispatch.answer(values(BIG), EVIL))
    running.addErrback(lambda _: None)
    scene.clock.turn()
    running.cancel()
    before = scene.total
    while scene.dispatch._parsing._waiting:
        scene.clock.turn()
    assert scene.total == before


def test_a_large_call_gives_the_same_result_as_a_small_one(scene: Scene) -> None:
    """It is parsed piece by piece, with values and faults."""
    big = wire.dumps((GOOD_LOGIN, ["x" * 100, 1.5, "ä<&"] * 1_000), "merkat.none").encode()
    assert codec.call_of(big, 16).arguments[0] == GOOD_LOGIN
    results: list[Any] = []
    taking = Deferred.fromCoroutine(scene.dispatch._parsing.call_of(big, HOME))
    taking.addCallback(results.append)
    while not results:
        scene.clock.turn()
    assert results == [codec.call_of(big, 16)]


@pytest.mark.parametrize("session", ["ann:pw", "ann:<&>\"'", "änn:ß😀", "", "a b:  c"])
def test_the_session_is_read_before_the_call_is_parsed(session: str) -> None:
    """It is found in the standard library's format, and without its type."""
    body = wire.dumps((session, 1), "merkat.price.info", encoding="utf-8").encode()
    assert claimed_session(body) == session
    plain = body.replace(b"<string>", b"").replace(b"</string>", b"")
    assert claimed_session(plain) == session


def test_no_session_is_found_in_other_data() -> None:
    """The length of the data doesn't matter."""
    assert claimed_session(values(BIG)) == ""
    assert claimed_session(b"<params>" * 30_000) == ""
    assert claimed_session(b"<params>" + b" " * BIG) == ""


class Connection:
    """A connection with many calls at once."""

    def __init__(self, answer: Any) -> None:
        self.clock = Turns()
        factory = CallFactory(self.clock, ApiSettings(), answer, TrustedProxies(()))
        where = IPv4Address("TCP", EVIL, 4711)
        self.factory = factory
        self.channel: Channel = factory.buildProtocol(where)
        self.transport = Unread(peerAddress=where)
        self.channel.makeConnection(self.transport)

    def answers(self) -> int:
        """Return the number of answers."""
        return int(self.transport.value().count(b"HTTP/1.1 200 OK"))


REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


async def at_once(_body: bytes, _address: str) -> bytes:
    """Return a short answer."""
    return b"x"


async def over(_body: bytes, _address: str) -> HeldConnection:
    """Return an answer to a caller over a limit."""
    return HeldConnection(b"x")


def test_many_small_calls_of_a_connection_give_way_to_others() -> None:
    """A few are answered in each turn, and all in the end."""
    connection = Connection(at_once)
    connection.channel.dataReceived(REQUEST * 100)
    assert 0 < connection.answers() < 10
    before = connection.answers()
    while connection.answers() < 100:
        connection.clock.turn()
        assert before < connection.answers() < before + 10
        before = connection.answers()
    connection.channel.dataReceived(REQUEST)
    connection.clock.turn()
    assert connection.answers() == 101


def test_a_caller_over_a_limit_is_answered_later_and_not_read_meanwhile() -> None:
    """Its connection gets two answers a second and makes room for others."""
    connection = Connection(over)
    connection.channel.dataReceived(REQUEST * 100)
    connection.channel.dataReceived(REQUEST * 1_000)
    assert connection.transport.producerState == "paused"
    assert not connection.channel.at_work
    assert connection.answers() == 0
    for second in range(1, 6):
        connection.clock.advance(0.5)
        connection.clock.advance(0.5)
        assert connection.answers() == 2 * second


def test_a_delayed_answer_ends_with_its_connection() -> None:
    """No timer remains."""
    connection = Connection(over)
    connection.channel.dataReceived(REQUEST)
    assert connection.clock.calls
    connection.channel.connectionLost()
    assert connection.clock.calls == []
