"""The daemon's sockets, and who may connect."""

import asyncio
import os
from collections.abc import Callable, Container, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import zmq
import zmq.asyncio
from twisted.logger import Logger
from zmq.utils import z85

from merkatd.base.rate_limit import NamedRateLimits
from merkatd.bus.guarded_tasks import Tasks
from merkatd.bus.socket_paths import ASKED, PUBLISHED, handshake_ms, socket_at
from merkatd.protocol.curve_keys import KeyPair
from merkatd.protocol.wire_format import LARGEST_BYTES

_log = Logger()
DOMAIN = b"merkat"
_ADDRESS = "inproc://zeromq.zap.01"
"""Where libzmq asks, within a context."""
_OK, _REFUSED = b"200", b"400"


class ConnectionFilter:
    """Answers libzmq's question for each new connection to a context."""

    def __init__(
        self, context: zmq.asyncio.Context, throttle: NamedRateLimits, tasks: Tasks
    ) -> None:
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


_USER = "User-Id"
_WAITING = 100
"""Messages that wait for one peer, each way; what comes on top is not sent to it."""
_TURN = 16
"""After so many messages in a row others get the event loop,"""
_TURN_BYTES = 1 << 14
"""or after so many bytes: a message of 256 KiB takes some 20 ms to read."""
_REFUSED_BYTES = 1 << 20
"""By so much a message may be too large and still be answered."""
_LISTENING = b"\x01"
_FILES = 32
"""Open files that the sockets need at their start, with some to spare: 10 on Linux."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Bytes that came, and from whom."""

    platform: int
    route: bytes
    data: bytes


class DaemonSockets:
    """Open from its making to its closing."""

    def __init__(
        self,
        keys: KeyPair,
        endpoint: str,
        throttle: NamedRateLimits,
        heard: Callable[[Heard], Coroutine[Any, Any, None]],
        topics: Callable[[int], Container[bytes]],
        tasks: Tasks,
    ) -> None:
        """`heard` takes what comes, `topics` are those that a platform may listen to."""
        self._heard = heard
        self._topics = topics
        self._throttle = throttle
        _check_room()
        self._context = zmq.asyncio.Context()
        self.allowing = ConnectionFilter(self._context, throttle, tasks)
        limit_ms = handshake_ms(endpoint)
        self._asked = self._socket(zmq.ROUTER, keys, limit_ms)
        self._published = self._socket(zmq.XPUB, keys, limit_ms)
        self._published.set(zmq.XPUB_MANUAL, 1)
        self.asking = self._bound(self._asked, socket_at(endpoint, ASKED))
        self.listening = self._bound(self._published, socket_at(endpoint, PUBLISHED))
        self._tasks = [
            tasks.start("hearing", self._hear),
            tasks.start("letting listen", self._let_listen),
        ]

    def _socket(self, kind: int, keys: KeyPair, limit_ms: int) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, _WAITING),
            (zmq.RCVHWM, _WAITING),
            # Larger ones cost the connection before they cost memory.
            (zmq.MAXMSGSIZE, LARGEST_BYTES + _REFUSED_BYTES),
            (zmq.HANDSHAKE_IVL, limit_ms),
            (zmq.BACKLOG, 1024),
            (zmq.CURVE_SERVER, 1),
        ):
            socket.set(option, value)
        socket.set(zmq.CURVE_SECRETKEY, keys.secret.encode())
        socket.set(zmq.ZAP_DOMAIN, DOMAIN)
        return socket

    @staticmethod
    def _bound(socket: zmq.asyncio.Socket, endpoint: str) -> str:
        socket.bind(endpoint)
        return str(socket.getsockopt_string(zmq.LAST_ENDPOINT))

    async def _hear(self) -> None:
        while True:
            heard_bytes = 0
            for _ in range(_TURN):
                frames = await self._asked.recv_multipart(copy=False)
                await self._take(frames)
                heard_bytes += sum(len(frame) for frame in frames)
                if heard_bytes >= _TURN_BYTES:
                    break
            await asyncio.sleep(0)

    async def _take(self, frames: list[zmq.Frame]) -> None:
        platform = self.allowing.platform_of(frames[-1].get(_USER))
        if platform is None:
            return
        if len(frames) != 2:
            self._warn(platform, "a message in several parts")
            return
        try:
            await self._heard(Heard(platform, frames[0].bytes, frames[1].bytes))
        except Exception:  # noqa: BLE001 - one message is never the end of the others
            _log.failure("A message of platform {platform} was lost", platform=platform)

    async def _let_listen(self) -> None:
        """Let each hear what is for its own platform and market, and nothing else."""
        while True:
            for _ in range(_TURN):
                frame = await self._published.recv(copy=False)
                # libzmq itself takes back what a peer that has gone listened to: in nobody's name.
                if frame.bytes[:1] == _LISTENING:
                    self._subscribe(frame.get(_USER), frame.bytes[1:])
            await asyncio.sleep(0)

    def _subscribe(self, user: object, topic: bytes) -> None:
        platform = self.allowing.platform_of(user)
        if platform is None:
            return
        if topic in self._topics(platform):
            # It is the sender of the message just read that libzmq enters.
            self._published.subscribe(topic)
        else:
            self._warn(platform, f"to hear {topic[:40]!r}, which is not for it")

    def _warn(self, platform: int, what: str) -> None:
        if self._throttle.allows(_warned(platform)):
            _log.warn(
                "Refused on the bus: platform {platform} wanted {what}",
                platform=platform,
                what=what,
            )

    def forget(self, platform: int) -> None:
        """Keep nothing of a platform that is over."""
        self._throttle.forget(_warned(platform))

    async def answer(self, route: bytes, data: bytes) -> None:
        """Send this to one connection; where that takes nothing more, it is lost."""
        with suppress(zmq.ZMQError):
            await self._asked.send_multipart([route, data], zmq.NOBLOCK)

    def publish(self, topic: bytes, data: bytes) -> None:
        """Send this to all who listen to a topic; who is slow misses it."""
        # Done at once: what a peer has no room for is dropped by libzmq.
        self._published.send(topic + data, zmq.NOBLOCK)

    def close(self) -> None:
        """Let go of everybody."""
        for task in self._tasks:
            task.cancel()
        self.allowing.close()
        self._asked.close()
        self._published.close()
        self._context.term()


def _warned(platform: int) -> object:
    """Return the name under which warnings of what was wanted in vain are counted."""
    return "warned", platform


def _check_room() -> None:
    """Raise `OSError` if too few files may still be opened: libzmq would end the whole process."""
    opened: list[int] = []
    try:
        opened.append(os.open(os.devnull, os.O_RDONLY))
        opened.extend(os.dup(opened[0]) for _ in range(_FILES - 1))
    finally:
        for file in opened:
            os.close(file)
