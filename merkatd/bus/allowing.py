"""Who may connect: the keys of the platforms that are looked after, and nobody else's."""

import asyncio

import zmq
import zmq.asyncio
from twisted.logger import Logger
from zmq.utils import z85

from merkatd.bus.throttle import Throttle

_log = Logger()

DOMAIN = b"merkat"
_ADDRESS = "inproc://zeromq.zap.01"
"""Where libzmq asks, within a context."""
_OK, _REFUSED = b"200", b"400"


class Allowing:
    """Answers libzmq's question for each new connection to a context."""

    def __init__(self, context: zmq.asyncio.Context, throttle: Throttle) -> None:
        self._throttle = throttle
        self._platforms: dict[str, int] = {}
        self._socket = context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(_ADDRESS)
        self._task = asyncio.get_running_loop().create_task(self._answer())

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
            await self._socket.send_multipart(self._verdict(frames))

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
