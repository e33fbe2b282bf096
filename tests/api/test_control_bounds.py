"""The control socket keeps at most one question and one answer of a connection."""

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import capturedLogs

from merkatd.api.control.control_server import LONGEST_REQUEST, ControlFactory

_Transport: Any = StringTransport  # Twisted's testing has no types
QUESTION = b'{"question": "status"}\n'


class Slow:
    """Questions that are answered on the test's command."""

    def __init__(self) -> None:
        self.asked: list[Deferred[Any]] = []

    async def answer(self, _question: str, _arguments: dict[str, Any]) -> Any:
        """Return the answer that the test gives."""
        waiting: Deferred[Any] = Deferred()
        self.asked.append(waiting)
        return await waiting


def connected(questions: Any, clock: Clock | None = None) -> tuple[Any, Any]:
    """Return a command's connection."""
    line: Any = ControlFactory(clock or Clock(), questions).buildProtocol(None)
    transport = _Transport()
    line.makeConnection(transport)
    return line, transport


def test_waiting_questions_are_not_read() -> None:
    """During a question the connection reads no other; then they follow in order."""
    questions, clock = Slow(), Clock()
    line, transport = connected(questions, clock)
    line.dataReceived(QUESTION * 3)
    assert (len(questions.asked), transport.producerState) == (1, "paused")
    for number in range(3):
        assert len(questions.asked) == number + 1
        questions.asked[number].callback(number)
        clock.advance(0)
    assert [json.loads(line)["answer"] for line in transport.value().splitlines()] == [0, 1, 2]
    assert transport.producerState == "producing"


def test_thousands_of_questions_are_answered_one_by_one() -> None:
    """They keep their order, and the daemon does other work between any two of them."""
    clock = Clock()
    others: list[int] = []

    class Quick:
        async def answer(self, _question: str, arguments: dict[str, Any]) -> Any:
            assert len(others) == arguments["n"]
            clock.callLater(0, others.append, 0)
            return arguments["n"]

    line, transport = connected(Quick(), clock)
    line.dataReceived(b"".join(b'{"question": "a", "n": %d}\n' % n for n in range(3_000)))
    clock.advance(0)
    answers = [json.loads(line).get("answer") for line in transport.value().splitlines()]
    assert answers == list(range(3_000))


def test_an_invalid_line_ends_the_connection() -> None:
    """Tens of thousands of empty lines get one answer in all."""
    for wrong in (b"\n", b"[]\n", b'{"question": 1}\n', b"{\n", b"\xff\n"):
        line, transport = connected(Slow())
        line.dataReceived(wrong * 10_000)
        lines = transport.value().splitlines()
        assert [list(json.loads(line)) for line in lines] == [["error"]], wrong
        assert transport.disconnecting


def test_questions_wait_until_earlier_answers_are_read() -> None:
    """The connection reads no further question until then."""
    questions, clock = Slow(), Clock()
    line, transport = connected(questions, clock)
    line.dataReceived(QUESTION * 2)
    transport.producer.pauseProducing()
    questions.asked[0].callback("x" * 100)
    clock.advance(0)
    assert (len(questions.asked), transport.producerState) == (1, "paused")
    transport.producer.resumeProducing()
    assert (len(questions.asked), transport.producerState) == (2, "paused")
    questions.asked[1].callback(None)
    clock.advance(0)
    assert transport.producerState == "producing"


def test_a_client_that_has_disconnected_gets_no_answer() -> None:
    """Its waiting questions are dropped."""
    questions, clock = Slow(), Clock()
    line, transport = connected(questions, clock)
    line.dataReceived(QUESTION * 2)
    questions.asked[0].callback(0)
    transport.producer.stopProducing()
    clock.advance(0)
    assert len(questions.asked) == 1


def test_an_answer_that_is_no_json_is_an_error_and_the_connection_continues() -> None:
    """The client gets an error, the log has the reason, and the next question is answered."""
    questions, clock = Slow(), Clock()
    line, transport = connected(questions, clock)
    line.dataReceived(QUESTION * 2)
    with capturedLogs() as logged:
        questions.asked[0].callback({"a": object()})
        clock.advance(0)
    assert len([event for event in logged if event.get("log_failure")]) == 1
    questions.asked[1].callback(7)
    first, second = map(json.loads, transport.value().splitlines())
    assert first == {"error": "the daemon failed to answer; its log says why"}
    assert second == {"answer": 7}


def test_a_line_without_an_end_ends_the_connection() -> None:
    """At most the size of a request is stored."""
    line, transport = connected(Slow())
    line.dataReceived(b"x" * (LONGEST_REQUEST + 100))
    assert transport.disconnecting
