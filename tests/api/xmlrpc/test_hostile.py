"""Any input gets one clear error and changes nothing."""

import contextlib
import math
import socket
import time
import xmlrpc.client as wire
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.api.xmlrpc.codec import RpcCall, answer, call_of
from merkatd.api.xmlrpc.errors import RpcFault
from tests.api.xmlrpc.site import ANN, BOB, Site
from tests.lengths import shorten

SQL = "'; DROP TABLE bids; --"
LONG = "x" * 5000


@pytest.fixture(scope="module")
def resting(site: Site) -> Iterator[Site]:
    """Return the daemon between two periods: only calls can change the database now."""
    site.pause()
    yield site
    site.resume()


def call(method: str, *arguments: str) -> bytes:
    """Return a call with arguments in their wire format."""
    values = "".join(f"<param><value>{argument}</value></param>" for argument in arguments)
    text = f"<methodCall><methodName>{method}</methodName><params>{values}</params></methodCall>"
    return text.encode()


def bid(value: str) -> bytes:
    """Return Ann's bid for her own VM."""
    member = f"<member><name>cpu</name><value>{value}</value></member>"
    return call("merkat.bid.set", ANN, "<int>0</int>", f"<struct>{member}</struct>")


def nested(depth: int) -> str:
    """Return nested arrays."""
    opened, closed = "<array><data><value>", "</value></data></array>"
    return f"{opened * depth}<int>1</int>{closed * depth}"


BOMB = b"""<?xml version="1.0"?><!DOCTYPE m [<!ENTITY a "aaaaaaaaaa">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
]><methodCall><methodName>merkat.price.info</methodName><params><param><value>&c;</value></param>
</params></methodCall>"""
FILE = b"""<?xml version="1.0"?><!DOCTYPE m [<!ENTITY f SYSTEM "file:///etc/passwd">]>
<methodCall><methodName>&f;</methodName></methodCall>"""

REFUSED = {
    "a bid of NaN": (bid("<double>nan</double>"), 4096),
    "of infinity": (bid("<double>inf</double>"), 4096),
    "of minus infinity": (bid("<double>-inf</double>"), 4096),
    "below 0": (bid("<double>-0.001</double>"), 4096),
    "of minus one": (bid("<int>-1</int>"), 4096),
    "huge": (bid("<double>1e308</double>"), 4096),
    "too huge for a number": (bid("<double>1e999</double>"), 4096),
    "a whole number of 60 bits": (bid("<i8>1152921504606846976</i8>"), 4096),
    "a text": (bid("<string>7</string>"), 4096),
    "a flag": (bid("<boolean>1</boolean>"), 4096),
    "an array": (bid("<array><data></data></array>"), 4096),
    "no number": (bid("<double>7 apples</double>"), -501),
    "digits with lines": (bid("<double>1_0</double>"), -501),
    "a date": (bid("<dateTime.iso8601>20260101T00:00:00</dateTime.iso8601>"), -501),
    "null": (bid("<nil/>"), -501),
    "bytes": (bid("<base64>AAAA</base64>"), -501),
    "no session": (call("merkat.price.info"), -501),
    "a number for a session": (call("merkat.price.info", "<int>1</int>"), -501),
    "an empty session": (call("merkat.price.info", ""), 256),
    "a session without a colon": (call("merkat.price.info", "ann"), 256),
    "a wrong password": (call("merkat.price.info", "ann:wrong"), 256),
    "nobody's session": (call("merkat.price.info", f"{SQL}:x"), 256),
    "a session of a character with thousands of digits": (
        call("merkat.price.info", f"&#{'1' * 5000};"),
        -503,
    ),
    "a session too long": (call("merkat.price.info", f"ann:{LONG}"), 256),
    "an unknown method": (call("merkat.vm.steal", ANN), -506),
    "another's method": (call("one.vm.info", ANN, "<int>0</int>"), -506),
    "Python's own": (call("__class__", ANN), -506),
    "listing methods": (call("system.listMethods"), -506),
    "SQL for a method": (call(SQL, ANN), -506),
    "too many arguments": (call("merkat.price.info", ANN, "default", "more"), -501),
    "too few": (call("merkat.bid.set", ANN), -501),
    "a flag for an id": (call("merkat.bid.info", ANN, "<boolean>0</boolean>"), -501),
    "a text for an id": (call("merkat.bid.info", ANN, "0"), -501),
    "an unknown VM": (call("merkat.bid.info", ANN, "<int>4711</int>"), 1024),
    "the VM before the first": (call("merkat.bid.info", ANN, "<int>-1</int>"), 1024),
    "a VM beyond all": (call("merkat.bid.info", ANN, "<int>2147483647</int>"), 1024),
    "a VM beyond numbers": (call("merkat.bid.info", ANN, "<i8>9223372036854775807</i8>"), -501),
    "an unknown application": (
        call(
            "merkat.budget.set",
            ANN,
            "<int>4711</int>",
            "<struct><member><name>budget</name><value><int>1</int></value></member></struct>",
        ),
        1024,
    ),
    "an unknown tenant": (call("merkat.tenant.info", ANN, "<int>4711</int>"), 512),
    "SQL for a market": (call("merkat.price.info", ANN, SQL), 4096),
    "a market too long": (call("merkat.price.info", ANN, LONG), 4096),
    "SQL for a month": (call("merkat.statement.info", ANN, "<int>-1</int>", SQL), 4096),
    "no month": (call("merkat.statement.info", ANN, "<int>-1</int>", "2026-13"), 4096),
    "no periods": (call("merkat.price.history", ANN, "<int>0</int>"), 4096),
    "all periods": (call("merkat.price.history", ANN, "<int>1000000</int>"), 4096),
    "an empty bid": (call("merkat.bid.set", ANN, "<int>0</int>", "<struct></struct>"), 4096),
    "a bid for what is not traded": (
        call(
            "merkat.bid.set",
            ANN,
            "<int>0</int>",
            f"<struct><member><name>{SQL}</name><value><int>1</int></value></member></struct>",
        ),
        4096,
    ),
    "nested too deep": (call("merkat.price.info", nested(17)), -503),
    "nested without an end": (call("merkat.price.info", nested(5000)), -503),
    "an entity bomb": (BOMB, -503),
    "a file of the server's": (FILE, -503),
    "nothing": (b"", -503),
    "no XML": (b"\x00\x01\x02", -503),
    "JSON": (b'{"method": "merkat.price.info"}', -503),
    "half a call": (call("merkat.price.info", ANN)[:-20], -503),
    "an answer": (answer(0), -503),
    "an encoding that nobody knows": (b'<?xml version="1.0" encoding="x-7"?><methodCall/>', -503),
    "two values in one": (call("merkat.price.info", "<int>1</int><int>2</int>"), -503),
    "a member twice": (
        call(
            "merkat.bid.set",
            ANN,
            "<int>0</int>",
            "<struct>"
            + "<member><name>cpu</name><value><int>1</int></value></member>" * 2
            + "</struct>",
        ),
        -503,
    ),
    "too large": (call("merkat.price.info", ANN, "x" * 300_000), -509),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_calls_get_one_clear_error_and_change_nothing(name: str, resting: Site) -> None:
    """The code is OpenNebula's, and a short text gives the reason."""
    body, code = REFUSED[name]
    before = resting.kept()
    status, reply = resting.post(body)
    assert status == 200
    answer = resting.value(reply)
    assert resting.kept() == before
    if code < 0:
        assert answer == code
    else:
        assert [type(part) for part in answer] == [bool, str, int, int]
        assert (answer[0], answer[2]) == (False, code)
        assert answer[1].startswith("[merkat.")
    assert len(reply) < 1000
    assert b"Traceback" not in reply


def test_another_tenants_bid_is_protected(resting: Site) -> None:
    """This holds for any amount."""
    before = resting.kept()
    for amount in (0, 1.5, 1e15, -1, math.nan):
        answer = resting.raw("merkat.bid.set", BOB, 0, {"cpu": amount})
        assert answer[2] == 512
    assert resting.kept() == before


@pytest.mark.parametrize("verb", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_only_post_is_accepted(verb: str, resting: Site) -> None:
    """Other methods get 405."""
    status, reply = resting.post(b"", verb=verb)
    assert status == 405
    assert len(reply) < 100


def test_other_paths_do_not_exist(resting: Site) -> None:
    """Only the interface is served."""
    assert resting.post(b"", path="/../../etc/passwd")[0] == 404
    assert resting.post(b"", path="/RPC2/../x")[0] == 404


def connect(site: Site) -> socket.socket:
    """Return a plain connection."""
    host, port = site.endpoint.removeprefix("http://").removesuffix("/RPC2").split(":")
    connection = socket.create_connection((host, int(port)))
    connection.settimeout(10)
    return connection


def test_slow_senders_are_disconnected(resting: Site) -> None:
    """They may send a header line, a byte of a body, or nothing; others are served."""
    head = b"POST /RPC2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
    slow = [connect(resting) for _ in range(20)]
    for number, connection in enumerate(slow):
        connection.sendall((head, head + b"\r\n<", b"P", b"")[number % 4])
    begin, ended = time.monotonic(), False
    while not ended and time.monotonic() < begin + 8:
        assert resting.raw("merkat.system.version", ANN)[0] is True
        ended = all(gone(connection) for connection in slow)
        time.sleep(0.1)
    assert ended
    for connection in slow:
        connection.close()


def gone(connection: socket.socket) -> bool:
    """Return whether the other side has closed; send another byte if not."""
    connection.setblocking(False)
    try:
        connection.send(b"x")
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_a_body_without_an_end_is_refused(resting: Site) -> None:
    """An endless length or chunked body is refused at once."""
    for request, status in (
        (b"Content-Length: 99999999999", 413),
        (b"Transfer-Encoding: chunked", 411),
    ):
        with connect(resting) as connection:
            connection.sendall(b"POST /RPC2 HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % request)
            with connection.makefile("rb") as answer:
                assert answer.read().startswith(b"HTTP/1.1 %d" % status)
    assert resting.raw("merkat.system.version", ANN)[0] is True


PLAIN: Any = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**31), 2**31 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=shorten(200, 60), deadline=None)
@given(arguments=st.lists(PLAIN, max_size=4))
def test_the_wire_format_agrees_with_the_standard_library(arguments: list[Any]) -> None:
    """Calls are parsed, and answers written, as the library does it."""
    body = wire.dumps(tuple(arguments), "some.method", encoding="utf-8").encode()
    assert call_of(body, 100) == RpcCall("some.method", arguments)
    assert wire.loads(answer(arguments))[0] == ([True, arguments, 0],)


@settings(max_examples=shorten(300, 100), deadline=None)
@given(body=st.binary(max_size=200))
def test_random_bytes_do_no_harm(body: bytes) -> None:
    """They are refused as no call."""
    with pytest.raises(RpcFault):
        call_of(body, 16)


@settings(max_examples=shorten(300, 100), deadline=None)
@given(cut=st.data())
def test_a_broken_call_does_no_harm(cut: st.DataObject) -> None:
    """A call with missing, doubled or replaced parts is parsed or refused."""
    xml = bid("<double>1.5</double>")
    begin = cut.draw(st.integers(0, len(xml)))
    end = cut.draw(st.integers(begin, len(xml)))
    put = cut.draw(
        st.sampled_from([b"", b"<", b"</value>", b"&a;", b"<value>", xml[begin:end] * 2])
    )
    with contextlib.suppress(RpcFault):
        assert call_of(xml[:begin] + put + xml[end:], 16).method
