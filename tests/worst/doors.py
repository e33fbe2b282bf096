"""Texts that arrive before a login, and texts that commands and oned's driver read."""

import base64
from pathlib import Path
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from merkatd.api.control.control_server import LONGEST_REQUEST, ControlFactory
from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.http_server import CallFactory
from merkatd.api.http.settings import ApiSettings
from merkatd.base.toml_reader import duration
from merkatd.opennebula.driver.driver_request import DriverRequestError, read_action
from merkatd.service.base.errors import InvalidRequestError
from merkatd.web.base.form_reader import fields_of
from merkatd.web.base.served_names import host_name
from tests.worst.search import Parser

HEAD = 16_384
"""The bytes of a request's first line and headers."""
ARGUMENT = 1 << 17
"""The longest argument that Linux passes to a command."""
_VM_BYTES = 1 << 19
_Transport: Any = StringTransport  # Twisted's testing has no types
_PROXIES = TrustedProxies(["10.0.0.0/8", "fd00::/8"])


class _Questions:
    async def answer(self, question: str, _arguments: dict[str, Any]) -> Any:
        raise InvalidRequestError(f"{question!r} is no question")


async def _never(_body: bytes, _address: str) -> bytes:
    waiting: Deferred[bytes] = Deferred()
    return await waiting


def _asked(text: str) -> None:
    questions: Any = _Questions()
    line: Any = ControlFactory(Clock(), questions).buildProtocol(None)
    line.makeConnection(_Transport())
    line.dataReceived(text.encode())


def _head(text: str) -> None:
    """Read the head of an HTTP request as a connection does, in one piece."""
    factory = CallFactory(Clock(), ApiSettings(), _never, TrustedProxies(()))
    where = IPv4Address("TCP", "192.0.2.1", 4711)
    channel = factory.buildProtocol(where)
    channel.makeConnection(_Transport(peerAddress=where))
    channel.dataReceived(text.encode())


_RECORDED = (
    Path(__file__).parent.parent / "opennebula/driver/recorded" / "place74.xml"
).read_text()
_BEFORE, _, _AFTER = _RECORDED.partition("<USER_TEMPLATE>")

CONTROL = Parser(
    name="question on the control socket",
    read=_asked,
    bytes_=LONGEST_REQUEST,
    words=("{", "}", "[", "]", ",", ":", '"', '"a{n}":1,', "1", "\\u", "\\ud800", "\\n", " "),
    frames=(("", "\n"), ('{"question":"', '"}\n'), ('{"question":"a","b":[', "0]}\n")),
    known=(
        ("", "[", "\n"),
        ("", '{"a":', "\n"),
        ("", "1", "\n"),
        ("", "\n", ""),
        ("", "1\n", ""),
        ("", '{"question":""}\n', ""),
        ('{"question":"', "\\ud800", '"}\n'),
        ('{"question":"a",', '"{n}":1,', '"b":1}\n'),
    ),
)
REQUEST_HEAD = Parser(
    name="head of an HTTP request",
    read=_head,
    bytes_=HEAD,
    words=(
        *("a", "A{n}: 1\r\n", ": ", "\r\n", " ", "\t", "%41", "&", "=", ";", "?"),
        "Cookie: a=b\r\n",
    ),
    frames=(
        ("GET /", " HTTP/1.1\r\n\r\n"),
        ("GET / HTTP/1.1\r\n", "\r\n\r\n"),
        ("GET / HTTP/1.1\r\nCookie: ", "\r\n\r\n"),
        ("GET / HTTP/1.1\r\nContent-Length: ", "\r\n\r\n"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", ""),
    ),
    known=(
        ("GET /?", "a{n}=&", " HTTP/1.1\r\n\r\n"),
        ("GET /?", "&", " HTTP/1.1\r\n\r\n"),
        ("GET /?", "%41", " HTTP/1.1\r\n\r\n"),
        ("GET / HTTP/1.1\r\n", "a{n}:\r\n", "\r\n"),
        ("GET / HTTP/1.1\r\nA: b\r\n", " \r\n", "\r\n"),
        ("GET / HTTP/1.1\r\nCookie: ", "a{n}=b;", "\r\n\r\n"),
        ("GET / HTTP/1.1\r\nCookie: ", ";", "\r\n\r\n"),
        ("GET / HTTP/1.1\r\nContent-Length: ", "9", "\r\n\r\n"),
        ("GET / HTTP/1.1\r\nConnection: ", " ", "\r\n\r\n"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", "0\r\n\r\n"),
        ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "a{n}: b\r\n", "\r\n"),
    ),
)
QUERY = Parser(
    name="query string",
    read=lambda text: fields_of(text.encode()),
    bytes_=HEAD,
    words=("a", "{n}", "=", "&", ";", "%", "%41", "+"),
    known=(("", "&", ""), ("", "{n}=&", ""), ("a=", "%C3", "")),
)
HOST = Parser(
    name="Host header",
    read=host_name,
    bytes_=HEAD,
    words=("a", ".", "-", "_", "[", "]", ":", "1", "f"),
    known=(("", "a", ""), ("[", ":", ""), ("", "a.", ":"), ("a:", "1", "")),
)
FORWARDED = Parser(
    name="X-Forwarded-For",
    read=lambda text: _PROXIES.caller("10.0.0.1", [text.encode()]),
    bytes_=HEAD,
    words=("10.0.0.1", ",", " ", "[", "]", ":", "1", "fd00::1", "%", "."),
    known=(
        ("", "10.0.0.1,", "10.0.0.1"),
        ("", ",", ""),
        ("", " ", ""),
        ("", ":", ""),
        ("", "1", ""),
        ("[", "f:", "]"),
    ),
)
DURATION = Parser(
    name="duration",
    read=duration,
    bytes_=ARGUMENT,
    words=("1", ".", " ", "d", "s", "0", "e", "-"),
    known=(("", "1", "d"), ("1.", "1", "s"), ("1", " ", "s")),
)
ACTION = Parser(
    name="VM in what oned hands to its scheduler driver",
    read=lambda text: read_action(base64.b64encode(text.encode())),
    bytes_=len(_RECORDED.encode()) + _VM_BYTES,
    words=(
        *("<A>1</A>", "<A{n}>1</A{n}>", "<A><B>1</B></A>", "&amp;", "<![CDATA[a]]>", "a", "<VM/>"),
        *("<VM><ID>{n}</ID></VM>", "<HOST><ID>{n}</ID></HOST>", "<REQUIREMENTS/>", "<NIC/>"),
    ),
    frames=((f"{_BEFORE}<USER_TEMPLATE>", _AFTER),),
    known=(
        (f"{_BEFORE}<USER_TEMPLATE>", "<VM><ID>{n}</ID></VM>", _AFTER),
        (f"{_BEFORE}<USER_TEMPLATE>", "<A{n}>1</A{n}>", _AFTER),
        (f"{_BEFORE}<USER_TEMPLATE>", "<VM/>", _AFTER),
        (f"{_BEFORE}<USER_TEMPLATE>", "<A><VM/></A>", _AFTER),
        (f"{_BEFORE}<USER_TEMPLATE><A>", "a", f"</A>{_AFTER}"),
        (f"{_BEFORE}<USER_TEMPLATE>", "<A>", _AFTER),
    ),
    refuses=(DriverRequestError,),
)
DOORS = (CONTROL, REQUEST_HEAD, QUERY, HOST, FORWARDED, DURATION, ACTION)
