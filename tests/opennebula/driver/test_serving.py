"""The driver's socket: a request with its length, an answer, and the end of the connection."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport

from merkatd.opennebula.driver.driver_answer import EMPTY
from merkatd.opennebula.driver.driver_socket import LONGEST_QUESTION, _Question
from tests.lengths import shorten


class Asked:
    """A client of the socket."""

    def __init__(self) -> None:
        self.questions: list[tuple[int | None, bytes]] = []
        self.waits: Callable[[], bool] = lambda: True
        self.answer: Deferred[str] = Deferred()
        self.transport: Any = StringTransport()  # type: ignore[no-untyped-call]
        protocol: Any = _Question(self._answering)
        self.protocol = protocol
        protocol.makeConnection(self.transport)

    async def _answering(
        self, cluster: int | None, payload: bytes, waits: Callable[[], bool]
    ) -> str:
        self.questions.append((cluster, payload))
        self.waits = waits
        return await self.answer

    @property
    def received(self) -> str:
        """Return the received answer."""
        return str(self.transport.value().decode())


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_request_in_pieces_is_assembled(size: int) -> None:
    """The size of the pieces does not matter."""
    asked = Asked()
    data = b"optimize 12 10\n0123456789"
    for at in range(0, len(data), size):
        asked.protocol.dataReceived(data[at : at + size])
    assert asked.questions == [(12, b"0123456789")]
    assert asked.received == ""
    asked.answer.callback("INFO: well\n<PLAN/>")
    assert asked.received == "INFO: well\n<PLAN/>\n"
    assert asked.transport.disconnecting


def test_a_closed_connection_is_detected() -> None:
    """A plan that no client receives must not count as sent."""
    asked = Asked()
    asked.protocol.dataReceived(b"place 0\n")
    assert asked.questions == [(None, b"")]
    assert asked.waits()
    asked.protocol.connectionLost()
    assert not asked.waits()
    asked.answer.callback(EMPTY)
    assert asked.received == ""


@pytest.mark.parametrize(
    "head",
    [
        b"\n",
        b"place\n",
        b"place x\n",
        b"place -1\n",
        b"optimize 3\n",
        b"place 1 2 3\n",
        f"place {LONGEST_QUESTION + 1}\n".encode(),
        b"x" * 200,
    ],
)
def test_an_invalid_request_is_answered_with_the_empty_plan(head: bytes) -> None:
    """The answer is immediate, and the scheduler is not asked."""
    asked = Asked()
    asked.protocol.dataReceived(head)
    assert asked.received.startswith("WARN: merkatd: expected a line `place LENGTH` or ")
    assert asked.received.endswith(f"\n{EMPTY}\n")
    assert asked.transport.disconnecting
    assert asked.questions == []


@settings(max_examples=shorten(200, 60), deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_get_an_answer_or_none_yet(pieces: list[bytes]) -> None:
    """No input causes another reaction."""
    asked = Asked()
    asked.answer.callback(EMPTY)
    for piece in pieces:
        asked.protocol.dataReceived(piece)
    assert asked.received == "" or asked.received.endswith(f"{EMPTY}\n")
