"""Many calls at once on one connection: no answers pile up in memory for a slow reader."""

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import capturedLogs

from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.http_server import CallFactory
from merkatd.api.http.settings import ApiSettings
from merkatd.api.metrics import metrics_server as metrics
from merkatd.web.base.responses import BrowserRequest, PageResponse
from tests.web.visits import Visits

_Transport: Any = StringTransport  # Twisted's testing has no types
ANSWER = b"x" * 50_000
BUFFER = 1 << 16
"""The bytes that a Twisted transport keeps before it requests a pause."""
MOST_KEPT = 4 * BUFFER
CALLS = 100
"""More answers than fit: six of them fill what may be kept."""
MOST_SENT = 5 * CALLS


class Unread(_Transport):  # type: ignore[misc]  # so it is
    """A connection whose other end reads only on the test's command; it pauses like TCP's."""

    paused = False

    def write(self, data: bytes) -> None:
        """Store the data, and request a pause if it is too much."""
        super().write(data)
        if len(self.value()) > BUFFER and not self.paused:
            self.paused = True
            self.producer.pauseProducing()

    def read(self) -> bytes:
        """Return all waiting data, as the other end reads it."""
        written = bytes(self.value())
        self.clear()
        if self.paused:
            self.paused = False
            self.producer.resumeProducing()
        return written

    def abortConnection(self) -> None:  # noqa: N802 - Twisted's name
        """Close the connection."""
        self.loseConnection()


async def answered(_body: bytes, _address: str) -> bytes:
    """Return a call's answer."""
    return ANSWER


async def shown(_asked: BrowserRequest) -> PageResponse:
    """Return a page."""
    return PageResponse(ANSWER)


def api(clock: Clock) -> Any:
    """Return the port of tenants' calls."""
    return CallFactory(clock, ApiSettings(), answered, TrustedProxies(()))


def web(_clock: Clock) -> Any:
    """Return the port of the page."""
    return Visits(shown).factory


def figures(clock: Clock) -> Any:
    """Return the port of the metrics."""
    return metrics._Pages(clock, {b"/": lambda: (200, b"text/plain", ANSWER)})


DOORS = pytest.mark.parametrize("door", [api, web, figures])
REQUESTS = {
    "api": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    "web": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "figures": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def connected(door: Callable[[Clock], Any]) -> tuple[Any, Unread]:
    """Connect to the port."""
    where = IPv4Address("TCP", "192.0.2.1", 4711)
    channel = door(Clock()).buildProtocol(where)
    transport = Unread(peerAddress=where)
    channel.makeConnection(transport)
    return channel, transport


@DOORS
def test_answers_wait_for_a_caller_that_reads_them(door: Callable[[Clock], Any]) -> None:
    """Memory holds a few answers; each call is answered once the caller reads."""
    channel, transport = connected(door)
    channel.dataReceived(REQUESTS[door.__name__] * CALLS)
    assert 0 < len(transport.value()) < MOST_KEPT
    read = b""
    for _ in range(CALLS):
        read += transport.read()
    assert read.count(b"HTTP/1.1 200 OK") == CALLS
    channel.dataReceived(REQUESTS[door.__name__])
    assert transport.read().count(b"HTTP/1.1 200 OK") == 1


@DOORS
def test_calls_that_arrive_meanwhile_are_not_read(door: Callable[[Clock], Any]) -> None:
    """The connection continues once the caller has read."""
    channel, transport = connected(door)
    sent = 0
    while transport.producerState == "producing" and sent < MOST_SENT:
        channel.dataReceived(REQUESTS[door.__name__] * 10)
        sent += 10
    assert transport.producerState == "paused"
    assert sum(map(len, channel._dataBuffer)) < MOST_KEPT
    read = b""
    while (more := transport.read()) != b"":
        read += more
    assert read.count(b"HTTP/1.1 200 OK") == sent
    assert transport.producerState == "producing"


@DOORS
def test_a_caller_that_never_reads_is_disconnected(door: Callable[[Clock], Any]) -> None:
    """This happens after the idle timeout."""
    channel, transport = connected(door)
    channel.dataReceived(REQUESTS[door.__name__] * CALLS)
    channel.look_at_the_clock(channel._seconds() + ApiSettings().idle_s)
    assert not transport.disconnecting
    channel.look_at_the_clock(channel._seconds() + ApiSettings().idle_s + 1.0)
    assert transport.disconnecting


@DOORS
@pytest.mark.parametrize("digits", [19, 4_301])
def test_a_length_with_too_many_digits_is_refused(
    door: Callable[[Clock], Any], digits: int
) -> None:
    """The answer has a status, and the log has no failure."""
    channel, transport = connected(door)
    with capturedLogs() as logged:
        channel.dataReceived(
            b"POST / HTTP/1.1\r\nHost: localhost\r\ncontent-LENGTH: " + b"9" * digits + b"\r\n\r\n"
        )
    assert transport.value().startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 "))
    assert transport.value().count(b"HTTP/1.1") == 1
    assert transport.disconnecting
    assert logged == []
