"""HTTP responses in pieces of any size: complete at their end, and never beyond it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.opennebula.rpc.http_reply import NoReplyError, Response

BODY = b"<methodResponse/>" * 7
SIZED = b"Content-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n40\r\n%s\r\n%X;x=y\r\n%s\r\n0\r\nT: u\r\n\r\n" % (
    BODY[:64],
    len(BODY) - 64,
    BODY[64:],
)
OK = b"HTTP/1.1 200 OK\r\n"


def fed(data: bytes, size: int = 1 << 20, most: int = 1 << 20) -> Response:
    """Return a response that arrived in pieces of this size."""
    response = Response(most)
    for start in range(0, len(data), size):
        response.feed(data[start : start + size])
    return response


@given(
    st.sampled_from([SIZED, CHUNKED]),
    st.sampled_from([b"", b"HTTP/1.1 100 Continue\r\n\r\n"]),
    st.integers(1, 60),
)
def test_a_response_is_complete_at_its_last_byte(text: bytes, before: bytes, size: int) -> None:
    """This holds for one piece and for single bytes."""
    data = before + OK + text
    response = fed(data, size)
    assert (response.whole, b"".join(response.chunks)) == (True, BODY)
    assert response.size == len(BODY)
    assert response.reusable
    assert not fed(data[:-1], size).whole


def test_without_a_length_the_response_ends_with_the_connection() -> None:
    """The connection cannot be reused."""
    response = fed(OK + b"\r\n" + BODY, 10)
    assert not response.whole
    response.end()
    assert (response.whole, b"".join(response.chunks)) == (True, BODY)
    assert not response.reusable


@pytest.mark.parametrize(
    ("text", "reusable"),
    [
        (OK + SIZED, True),
        (OK + b"Connection: Keep-Alive, close\r\n" + SIZED, False),
        (OK + b"connection: close\r\n" + SIZED, False),
        (b"HTTP/1.0 200 OK\r\n" + SIZED, False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + SIZED, True),
        (OK + SIZED + b"HTTP/1.1 200 OK", False),
    ],
)
def test_a_connection_is_reused_if_possible(text: bytes, *, reusable: bool) -> None:
    """The server must keep it open and send nothing after its answer."""
    response = fed(text)
    assert response.whole
    assert response.reusable is reusable


@pytest.mark.parametrize("cut", [0, 5, len(OK), len(OK) + 30])
def test_a_truncated_response_is_an_error(cut: int) -> None:
    """The cut is in the head or in the body."""
    response = fed((OK + SIZED)[:cut])
    with pytest.raises(ConnectionAbortedError, match="closed before the answer was complete"):
        response.end()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"rubbish\r\n\r\n", "not HTTP"),
        (b"HTTP/2 200\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 9999\r\n\r\n", r"status must be 200 \(got 503"),
        (OK + b"Content-Length: -1\r\n\r\n", "length is not certain"),
        (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "length is not certain"),
        (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "length is not certain"),
        (
            OK + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            "length is not certain",
        ),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", "no length"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "longer than its length"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n1" + b"0" * 2000, "does not end"),
        (OK + b" folded\r\n\r\n", "no name"),
        (OK + b"a: b\r\n" * 20_000, "head must have at most"),
        (OK + b"Content-Length: 9000\r\n\r\n" + b"x" * 5000, "more than 999 bytes"),
        (OK + b"\r\n" + b"x" * 5000, "more than 999 bytes"),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n3E8\r\n" + b"x" * 1000,
            "more than 999 bytes",
        ),
    ],
)
def test_an_invalid_response_is_an_error(text: bytes, why: str) -> None:
    """The error has the reason, and nothing is stored before."""
    with pytest.raises(NoReplyError, match=why):
        fed(text, most=999)


@given(st.binary(max_size=200), st.integers(1, 30))
def test_any_bytes_are_accepted_or_rejected(junk: bytes, size: int) -> None:
    """No other exception occurs, and nothing is stored beyond the limit."""
    for text in (junk, OK + junk, OK + b"Transfer-Encoding: chunked\r\n\r\n" + junk):
        response = Response(50)
        try:
            for start in range(0, len(text), size):
                response.feed(text[start : start + size])
            response.end()
        except (NoReplyError, ConnectionAbortedError):
            pass
        assert sum(map(len, response.chunks)) <= 50
