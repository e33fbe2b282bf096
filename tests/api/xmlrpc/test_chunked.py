"""Bodies without a length are not read, because each chunk costs the event loop."""

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from tests.api.xmlrpc.test_pipelined import DOORS, connected

CHUNKS = b"1;a\r\na\r\n" * 8_000
HEADS = (
    b"Transfer-Encoding: chunked\r\n",
    b"TRANSFER-encoding:\tChunked\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n",
    b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
)


def decoder(channel: Any) -> str:
    """Return the kind of the body's decoder."""
    return type(channel._transferDecoder).__name__


@DOORS
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
def test_a_body_in_chunks_is_refused_unread(
    door: Callable[[Clock], Any], head: bytes, version: bytes
) -> None:
    """The server answers 411, closes the connection and decodes no chunk."""
    channel, transport = connected(door)
    channel.dataReceived(b"POST /RPC2 %s\r\nHost: localhost\r\n%s\r\n" % (version, head))
    assert bytes(transport.value()).startswith(b"HTTP/1.1 411 Length Required\r\n")
    assert transport.disconnecting
    assert decoder(channel) != "_ChunkedTransferDecoder"
    written = bytes(transport.value())
    channel.dataReceived(CHUNKS)
    assert bytes(transport.value()) == written
    assert decoder(channel) != "_ChunkedTransferDecoder"


@DOORS
def test_chunks_sent_with_the_head_are_not_read_either(door: Callable[[Clock], Any]) -> None:
    """Data that arrives with the refused head is dropped with it."""
    channel, transport = connected(door)
    head = b"POST /RPC2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    channel.dataReceived(head + CHUNKS)
    assert bytes(transport.value()).count(b"HTTP/1.1 ") == 1
    assert transport.disconnecting
    assert decoder(channel) != "_ChunkedTransferDecoder"
