"""Who may connect: the keys of the platforms that are looked after, and nobody else's."""

import zmq
import zmq.asyncio
from twisted.logger import Logger
from zmq.utils import z85

from merkatd.bus.kept import Tasks
from merkatd.bus.throttle import Throttle

_log = Logger()

DOMAIN = b"merkat"
_ADDRESS = "inproc://zeromq.zap.01"
"""Where libzmq asks, within a context."""
_OK, _REFUSED = b"200", b"400"


class Allowing:
    """Answers libzmq's question for each new connection to a context."""

    def __init__(self, context: zmq.asyncio.Context, throttle: Throttle, tasks: Tasks) -> None:
        self._throttle = throttle
        self._platforms: dict[str, int] = {}
        self._socket = context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(_ADDRESS)
        self._task = tasks.start("letting in", self._answer)

    def allow(self, public: str, platform: int) -> None:
        """Let whoever has the secret to this key speak for the platform."""
        self._platforms[public] = platform

    def forbid(self, public: str) -> None:
        """Let them no more; who is connected is heard no more."""
        self._platforms.pop(public, None)

    def platform_of(self, public: object) -> int | None:
        """Whom a connection speaks for, by the key that libzmq found it to have."""
        return self._platforms.get(str(public))

    async def _answer(self) -> None:
        while True:
            frames = await self._socket.recv_multipart()
            try:
                verdict = self._verdict(frames)
            except Exception:  # noqa: BLE001 - without an answer the socket takes no question again
                _log.failure("A connection to the bus could not be judged; it is refused")
                verdict = [*frames[:2], _REFUSED, b"not judged", b"", b""]
            await self._socket.send_multipart(verdict)

    def _verdict(self, frames: list[bytes]) -> list[bytes]:
        version, request, domain, address, _, mechanism, *credentials = frames
        if mechanism == b"CURVE" and domain == DOMAIN and len(credentials) == 1:
            public = z85.encode(credentials[0])
            if public.decode() in self._platforms:
                return [version, request, _OK, b"known", public, b""]
        if self._throttle.allows("stranger"):
            _log.warn(
                "A stranger at {address} was refused on the bus",
                address=address.decode("ascii", "replace"),
            )
        return [version, request, _REFUSED, b"unknown key", b"", b""]

    def close(self) -> None:
        """Answer no more."""
        self._task.cancel()
        self._socket.close()
