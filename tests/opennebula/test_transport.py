"""Answers on the wire are decoded in slices, limited in size, and abandoned in time."""

import time
import xmlrpc.client
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import maybeDeferred
from twisted.internet.protocol import Factory, Protocol

from merkatd.base.clock import Inline
from merkatd.opennebula import Client, HttpTransport
from merkatd.opennebula.rpc.http_reply import NoReplyError, decoded
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.opennebula.worlds import ADMIN, RealTime

PLAIN = st.recursive(
    st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), inner, max_size=4)
    ),
)


@given(PLAIN, st.integers(1, 50))
def test_values_are_decoded_like_by_the_standard_library(value: Any, size: int) -> None:
    """The size of the pieces does not matter."""
    body = xmlrpc.client.dumps((value,), methodresponse=True).encode()
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    assert decoded(chunks) == xmlrpc.client.loads(body)[0][0]


def test_a_long_text_is_decoded_completely() -> None:
    """Entities and multi-byte characters may cross the borders of slices."""
    text = '<a b="ö€𝄞">&amp;</a>' * 30_000
    body = xmlrpc.client.dumps(([True, text, 0],), methodresponse=True).encode()
    chunks = [body[: len(body) // 2], body[len(body) // 2 :]]
    assert decoded(chunks) == [True, text, 0]
    # The bytes are released piece by piece: releasing 66 MB at once would stop every thread.
    assert chunks == []


def test_control_characters_do_not_break_a_pool() -> None:
    """A VM's name with such a character would make the whole answer unreadable."""
    body = xmlrpc.client.dumps((["a#b"],), methodresponse=True).encode().replace(b"#", b"\x08")
    assert decoded([body]) == ["a?b"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"<html></html>",
        b"<methodResponse/>",
        b"<methodResponse><params><param><value><int>x</int></value></param></params>",
        b"<methodResponse><params><param><value><int>x</int></value></param></params></methodResponse>",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><methodResponse>&b;</methodResponse>",
        b"<methodResponse><params></params></methodResponse>",
    ],
)
def test_an_invalid_reply_is_an_error(body: bytes) -> None:
    """The only exception is `NoReplyError`."""
    with pytest.raises(NoReplyError):
        decoded([body])


def test_a_fault_is_raised_with_its_code() -> None:
    """It is an `xmlrpc.client.Fault`."""
    body = xmlrpc.client.dumps(xmlrpc.client.Fault(-506, "no method")).encode()
    with pytest.raises(xmlrpc.client.Fault) as raised:
        decoded([body])
    assert raised.value.faultCode == -506


# -- HTTP ---------------------------------------------------------------------------------------

GOOD = xmlrpc.client.dumps(([True, "x" * 100_000, 0],), methodresponse=True).encode()
OK = b"HTTP/1.1 200 OK\r\n"
Script = Callable[[Any], None]


class Scripted(Protocol):
    """A server that answers each request by a script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._seen = b""

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Answer once a call is complete."""
        self._seen += data
        if self._seen.endswith(b"</methodCall>\n"):
            self._seen = b""
            self._script(self.transport)


class Port:
    """A port with a script."""

    def __init__(self, time: RealTime) -> None:
        self.script: Script = lambda _transport: None
        self.connections = 0
        self._time = time
        factory = Factory()
        factory.noisy = False
        factory.buildProtocol = self._build  # type: ignore[method-assign,assignment]
        self._port = time.reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.number: int = self._port.getHost().port
        self.endpoint = f"http://127.0.0.1:{self.number}/RPC2"

    def _build(self, _address: object) -> Scripted:
        self.connections += 1
        return Scripted(self._answer)

    def _answer(self, transport: Any) -> None:
        self.script(transport)

    def ask(self, timeout_s: float = 5.0, **options: Any) -> Any:
        """Return the value of a call to this port."""
        http = HttpTransport(self._time.reactor, self.endpoint, Inline(), **options)
        client = Client(http, ADMIN, self._time.reactor, timeout_s=timeout_s)
        try:
            return self._time.run(client.call("one.x", about="it"))
        finally:
            self._time.run(http.close())

    def close(self) -> None:
        """Stop listening."""
        self._time.run(_stopped(self._port))


async def _stopped(port: Any) -> None:
    await maybeDeferred(port.stopListening)


@pytest.fixture
def port(real_time: RealTime) -> Iterator[Port]:
    """Yield a server for scripts."""
    opened = Port(real_time)
    yield opened
    opened.close()


def answer(body: bytes, head: bytes = OK) -> Script:
    """Return a script that sends a whole answer."""
    return lambda transport: transport.write(
        head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    )


def test_an_answer_is_received(port: Port) -> None:
    """It has a length, or pieces, or ends with the connection."""

    def in_pieces(transport: Any) -> None:
        transport.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(GOOD), 9_999):
            piece = GOOD[start : start + 9_999]
            transport.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        transport.write(b"0\r\n\r\n")

    def until_the_end(transport: Any) -> None:
        transport.write(OK + b"Connection: close\r\n\r\n" + GOOD)
        transport.loseConnection()

    for script in (answer(GOOD), in_pieces, until_the_end):
        port.script = script
        assert port.ask() == "x" * 100_000


def _cut(transport: Any) -> None:
    transport.write(OK + b"Content-Length: 1000\r\n\r\n<methodResponse>")
    transport.loseConnection()


def _cut_without_length(transport: Any) -> None:
    transport.write(OK + b"Connection: close\r\n\r\n" + GOOD[:-20])
    transport.loseConnection()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (lambda transport: transport.loseConnection(), "closed"),
        (lambda transport: transport.write(b"rubbish\r\n\r\n"), ""),
        (answer(GOOD, b"HTTP/1.1 503 Busy\r\n"), r"status must be 200 \(got 503"),
        (answer(b"<html/>"), "not XML-RPC"),
        (answer(b"<methodResponse><params><param><value>x</value></param></params>"
                b"</methodResponse>"), "must be an array"),
        (_cut, ""),
        (_cut_without_length, "not XML-RPC"),
    ],
)  # fmt: skip
def test_without_an_answer_the_outcome_is_unknown(port: Port, script: Script, why: str) -> None:
    """The error names the call."""
    port.script = script
    with pytest.raises(CloudUnreachableError, match=f"one.x of it: .*{why}"):
        port.ask()


def test_an_unreachable_server_is_an_error(port: Port) -> None:
    """Its port is closed."""
    port.close()
    with pytest.raises(CloudUnreachableError, match="refused"):
        port.ask()


def test_a_too_long_answer_is_cut(port: Port) -> None:
    """The connection is closed at the limit."""
    port.script = answer(GOOD)
    with pytest.raises(CloudUnreachableError, match="more than 50000 bytes"):
        port.ask(body_bytes=50_000)
    assert port.ask(body_bytes=200_000) == "x" * 100_000


@pytest.mark.parametrize("head", [b"", OK, OK + b"Content-Length: 9\r\n\r\n<meth"])
def test_a_call_ends_at_its_timeout(port: Port, head: bytes) -> None:
    """The server may stop at any place of its answer."""
    port.script = lambda transport: transport.write(head)
    begun = time.monotonic()
    with pytest.raises(CloudUnreachableError, match=r"no answer within 0\.2 s"):
        port.ask(timeout_s=0.2)
    assert time.monotonic() - begun < 10


def test_connections_are_reused(port: Port, real_time: RealTime) -> None:
    """Consecutive calls use one connection."""
    port.script = answer(GOOD)
    http = HttpTransport(real_time.reactor, port.endpoint, Inline())
    client = Client(http, ADMIN, real_time.reactor)
    for _ in range(5):
        real_time.run(client.call("one.x"))
    real_time.run(http.close())
    assert port.connections == 1


def test_a_connection_closed_by_the_server_is_not_reused(port: Port, real_time: RealTime) -> None:
    """A server may close it after each answer without notice, as oned does; no call is lost."""

    def and_goodbye(transport: Any) -> None:
        answer(GOOD)(transport)
        transport.loseConnection()

    port.script = and_goodbye
    http = HttpTransport(real_time.reactor, port.endpoint, Inline())
    client = Client(http, ADMIN, real_time.reactor, attempts=1)
    for number in range(1, 6):
        assert real_time.run(client.call("one.x")) == "x" * 100_000
        assert port.connections == number
        real_time.wait(0.5)
    real_time.run(http.close())


def test_a_server_may_have_a_name(port: Port) -> None:
    """Each of the name's addresses is tried; only one `localhost` listens."""
    port.script = answer(GOOD)
    port.endpoint = f"http://localhost:{port.number}/RPC2"
    assert port.ask() == "x" * 100_000
    port.endpoint = f"http://nobody.invalid:{port.number}/RPC2"
    with pytest.raises(CloudUnreachableError, match=r"one\.x of it: "):
        port.ask()


def test_a_request_may_have_any_size(port: Port, real_time: RealTime) -> None:
    """It is larger than the system's buffers, and sent at the server's pace."""
    port.script = answer(GOOD)
    http = HttpTransport(real_time.reactor, port.endpoint, Inline())
    client = Client(http, ADMIN, real_time.reactor)
    assert real_time.run(client.call("one.x", "y" * 10_000_000)) == "x" * 100_000
    real_time.run(http.close())


def test_abandoned_calls_leave_nothing_behind(port: Port, real_time: RealTime) -> None:
    """The reactor watches no remaining socket."""
    before = set(real_time.reactor.getReaders())
    with pytest.raises(CloudUnreachableError):
        port.ask(timeout_s=0.1)
    port.script = answer(GOOD, b"HTTP/1.1 503 Busy\r\n")
    with pytest.raises(CloudUnreachableError):
        port.ask()
    real_time.wait(1.0)
    ours = {type(reader).__name__ for reader in set(real_time.reactor.getReaders()) - before}
    assert "Line" not in ours
