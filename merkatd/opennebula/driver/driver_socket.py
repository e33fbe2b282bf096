"""The socket for oned's driver: a question and an answer on each connection.

A question is a line "place LENGTH" or "optimize CLUSTER LENGTH", followed by LENGTH bytes.
"""

import grp
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from twisted.internet.defer import ensureDeferred
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from merkatd.opennebula.driver.driver_answer import EMPTY, line

LONGEST_QUESTION = 1 << 29
LONGEST_HEADER = 80

Answering = Callable[[int | None, bytes, Callable[[], bool]], Awaitable[str]]
"""A function that answers a question. Its arguments are the cluster to optimise (None for a
question for places), the bytes from oned, and a function that returns whether oned still waits."""

_log = Logger()


class SocketError(Exception):
    """The socket can't be opened as configured."""


class _Head(NamedTuple):
    cluster: int | None
    length: int


def _begun(head: bytes) -> _Head | None:
    """Parse the first line of a question; return None if it is invalid."""
    if len(head) > LONGEST_HEADER:
        return None
    match head.split():
        case [b"place", length]:
            texts = [length]
        case [b"optimize", cluster, length]:
            texts = [cluster, length]
        case _:
            return None
    if not all(text.isdigit() for text in texts):
        return None
    numbers = [int(text) for text in texts]
    if numbers[-1] > LONGEST_QUESTION:
        return None
    return _Head(numbers[0] if len(numbers) == 2 else None, numbers[-1])


class _Question(Protocol):
    """A connection with its question."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self._head = b""
        self._parts: list[bytes] = []
        self._begun: _Head | None = None
        self._length = 0
        self._asked = False
        self._there = True

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Collect the question, and answer it when it is complete."""
        if self._asked:
            return
        if self._begun is None:
            self._head += data
            head, newline, data = self._head.partition(b"\n")
            if not newline and len(head) <= LONGEST_HEADER:
                return
            self._begun = _begun(head)
            if self._begun is None:
                why = (
                    "merkatd: expected a line `place LENGTH` or `optimize CLUSTER LENGTH`,"
                    f" LENGTH at most {LONGEST_QUESTION}"
                )
                self._end(line("WARN", why) + "\n" + EMPTY)
                return
        self._parts.append(data)
        self._length += len(data)
        if self._length >= self._begun.length:
            self._asked = True
            ensureDeferred(self._answer(self._begun.cluster, b"".join(self._parts)))

    async def _answer(self, cluster: int | None, payload: bytes) -> None:
        self._parts = []
        try:
            answer = await self._answering(cluster, payload, lambda: self._there)
        except Exception:  # noqa: BLE001 - oned gets an answer whatever happens
            _log.failure("A question of OpenNebula's driver could not be answered")
            answer = line("WARN", "merkatd failed; its log says why") + "\n" + EMPTY
        self._end(answer)

    def _end(self, answer: str) -> None:
        self._asked = True
        transport: Any = self.transport  # Twisted's interface has no type
        if self._there and transport is not None:
            transport.write(answer.encode() + b"\n")
            transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802, ARG002
        """Record that oned does not wait any more."""
        self._there = False


class _Questions(Factory):
    noisy = False

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    def buildProtocol(self, _address: object) -> _Question:  # noqa: N802 - Twisted's name
        """Return the protocol of a new connection."""
        return _Question(self._answering)


def serve(reactor: Any, path: Path, group: str, answering: Answering) -> Any:
    """Open the socket for the daemon's own user and for this group. Raise SocketError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # No other running daemon uses the state directory: an existing socket is left from a dead one.
    path.unlink(missing_ok=True)
    mode = 0o660 if group else 0o600
    port: Any = reactor.listenUNIX(str(path), _Questions(answering), mode=mode)
    if group:
        try:
            os.chown(path, -1, grp.getgrnam(group).gr_gid)
        except (KeyError, OSError) as error:
            port.stopListening()
            raise SocketError(
                f"{path} can't be given to group {group!r} ({error}):"
                " expected an existing group that merkatd's user belongs to"
            ) from None
    return port
