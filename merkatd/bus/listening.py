"""What is published, taken as soon as it is there.

A price is for hundreds of processes on few cores at the same moment: nothing stands between the
socket and who takes the bytes, neither a future nor a task that would have to be woken first.
"""

import asyncio
from collections.abc import Callable

import zmq

_TURN = 16
"""After so many messages in a row others get the event loop."""


class Listening:
    """Reads a socket that nobody else reads, from its making to its closing."""

    def __init__(self, socket: "zmq.Socket[bytes]", take: Callable[[bytes], None]) -> None:
        self._socket = socket
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._open = True
        # libzmq tells once that there is something, not for each message: what came before we
        # began to watch would never be told.
        self._loop.add_reader(socket.fileno(), self._read)
        self._loop.call_soon(self._read)

    def _read(self) -> None:
        """All that is there; only then is the next message told."""
        for _ in range(_TURN):
            if not self._open:
                return
            try:
                data = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._take(data)
        self._loop.call_soon(self._read)

    def close(self) -> None:
        """Read no more."""
        if not self._open:
            return
        self._open = False
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
