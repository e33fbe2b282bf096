"""The control socket: commands on the same machine ask the daemon, one line of JSON each way.

A request is {"question": NAME, ...arguments}, an answer {"answer": VALUE} or {"error": TEXT}.
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
from twisted.protocols.basic import LineOnlyReceiver

from merkatd.api.ask import ControlError
from merkatd.api.questions import QuestionError, Questions

LONGEST_REQUEST = 1 << 16

_log = Logger()


class _Line(LineOnlyReceiver):
    """One connection: questions are answered in the order in which they came."""

    delimiter = b"\n"
    MAX_LENGTH = LONGEST_REQUEST

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._busy = False
        self._waiting: list[bytes] = []

    def lineReceived(self, line: bytes) -> None:  # noqa: N802 - Twisted's name
        """Answer it, once those before it are answered."""
        self._waiting.append(line)
        if not self._busy:
            self._busy = True
            ensureDeferred(self._answer_all())

    async def _answer_all(self) -> None:
        while self._waiting:
            reply = await self._reply(self._waiting.pop(0))
            transport: Any = self.transport  # Twisted's interface has no type
            if transport is not None:
                transport.write(json.dumps(reply).encode() + b"\n")
        self._busy = False

    async def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            return {"error": "one line of JSON is right"}
        if not isinstance(request, dict) or not isinstance(request.get("question"), str):
            return {"error": '{"question": NAME, ...} is right'}
        try:
            return {"answer": await self._questions.answer(request.pop("question"), request)}
        except QuestionError as error:
            return {"error": str(error)}
        except Exception:  # noqa: BLE001 - the daemon lives on, the asker is told
            _log.failure("A question on the control socket failed")
            return {"error": "the daemon failed to answer; its log says why"}


class ControlFactory(Factory):
    """Makes a connection for everybody who asks."""

    noisy = False

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    def buildProtocol(self, _address: object) -> _Line:  # noqa: N802 - Twisted's name
        """A new connection."""
        return _Line(self._questions)


def listen(reactor: Any, path: Path, questions: Questions) -> IListeningPort:
    """Open the socket; ControlError where another daemon has it. A dead one's is taken over."""
    if path.exists():
        if _answers(path):
            raise ControlError(f"{path}: another daemon listens here")
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    port: IListeningPort = reactor.listenUNIX(str(path), ControlFactory(questions), mode=0o600)
    return port


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
