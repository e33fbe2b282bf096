"""The server of the control socket: questions of commands, a line of JSON each way.

A request is {"question": NAME, ...arguments}; an answer is {"answer": VALUE} or {"error": TEXT}.
Only the daemon's own user can open the socket.
"""

import json
import socket
from pathlib import Path
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.protocols.basic import LineReceiver

from merkatd.api.control.control_client import ControlError
from merkatd.api.control.control_questions import Questions
from merkatd.service.base.errors import RequestError

LONGEST_REQUEST = 1 << 16

_log = Logger()


class _ControlProtocol(LineReceiver):
    """A connection; it reads its next question after the answer to the previous question.

    So a connection takes the memory of a single question and answer, even if its client sends
    many questions or reads no answers. Between two of its questions, the daemon does other work.
    """

    delimiter = b"\n"
    MAX_LENGTH = LONGEST_REQUEST

    def __init__(self, clock: Any, questions: Questions) -> None:
        self._questions = questions
        self._unread = _Unread(clock, self)

    def connectionMade(self) -> None:  # noqa: N802 - Twisted's name
        """Watch whether the client reads its answers."""
        transport: Any = self.transport  # Twisted's interface has no type
        transport.registerProducer(self._unread, True)

    def lineReceived(self, line: bytes) -> None:  # noqa: N802 - Twisted's name
        """Answer a question; read no further questions until then."""
        self.pauseProducing()  # type: ignore[no-untyped-call]  # Twisted has no type for it
        ensureDeferred(self._answer(line))

    async def _answer(self, line: bytes) -> None:
        transport: Any = self.transport
        try:
            question, arguments = _question(line)
        except ValueError as error:
            # The client speaks another protocol; answers to each of its lines are useless.
            transport.write(json.dumps({"error": str(error)}).encode() + b"\n")
            transport.loseConnection()
            return
        transport.write(await self._reply(question, arguments))
        self._unread.then_read_on()

    async def _reply(self, question: str, arguments: dict[str, Any]) -> bytes:
        try:
            return json.dumps(await self._answer_or_error(question, arguments)).encode() + b"\n"
        except Exception:  # noqa: BLE001 - the daemon goes on, and the client gets an error
            _log.failure("A question on the control socket failed")
            return b'{"error": "the daemon failed to answer; its log says why"}\n'

    async def _answer_or_error(self, question: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"answer": await self._questions.answer(question, arguments)}
        except RequestError as error:
            return {"error": str(error)}


def _question(line: bytes) -> tuple[str, dict[str, Any]]:
    """Return a question and its arguments. Raise ValueError for any other line."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("expected one line of JSON") from None
    if not isinstance(request, dict) or not isinstance(request.get("question"), str):
        raise ValueError('expected {"question": NAME, ...}')  # noqa: TRY004 - the request is wrong
    return request.pop("question"), request


class _Unread:
    """The flow control of a connection: whether its client has unread answers."""

    def __init__(self, clock: Any, line: Any) -> None:
        self._clock = clock
        self._line = line
        self._full = False
        self._waits = False
        self._ended = False

    def then_read_on(self) -> None:
        """Read the next question soon, but not before the client has read the answers."""
        self._clock.callLater(0, self._read_on)

    def _read_on(self) -> None:
        self._waits = self._full
        if not self._full and not self._ended:
            self._line.resumeProducing()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Note that the client has too many unread answers."""
        self._full = True

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Note that the client has read its answers, and read on."""
        self._full = False
        if self._waits:
            self._waits = False
            self._line.resumeProducing()

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Note that the connection has ended; its remaining questions get no answer."""
        self._ended = True


class ControlFactory(Factory):
    """The factory of the control socket's connections."""

    noisy = False

    def __init__(self, clock: Any, questions: Questions) -> None:
        self._clock = clock
        self._questions = questions

    def buildProtocol(self, _address: object) -> _ControlProtocol:  # noqa: N802 - Twisted's name
        """Return a new connection."""
        return _ControlProtocol(self._clock, self._questions)


def listen(reactor: Any, path: Path, questions: Questions) -> IListeningPort:
    """Open the socket; replace the socket of a dead daemon.

    Raise ControlError if another daemon listens on it.
    """
    if path.exists():
        if _answers(path):
            raise ControlError(f"{path}: another daemon listens on this socket")
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    port: IListeningPort = reactor.listenUNIX(
        str(path), ControlFactory(reactor, questions), mode=0o600
    )
    return port


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
