"""The daemon's sockets, and the keys that may connect."""

import asyncio
import os
from collections.abc import Callable, Container, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import zmq
import zmq.asyncio
from twisted.logger import Logger
from zmq.utils import z85

from merkatd.base.rate_limit import NamedRateLimits
from merkatd.bus.guarded_tasks import Tasks
from merkatd.bus.socket_paths import ASKED, PUBLISHED, handshake_ms, is_there, socket_at
from merkatd.protocol.curve_keys import KeyPair
from merkatd.protocol.wire_format import LARGEST_BYTES

_log = Logger()
DOMAIN = b"merkat"
_ADDRESS = "inproc://zeromq.zap.01"
"""The address, within a context, at which libzmq asks about new connections (ZAP)."""
_OK, _REFUSED = b"200", b"400"


class ConnectionFilter:
    """Accepts or refuses each new connection to a context, when libzmq asks."""

    def __init__(
        self, context: zmq.asyncio.Context, throttle: NamedRateLimits, tasks: Tasks
    ) -> None:
        self._throttle = throttle
        self._platforms: dict[str, int] = {}
        self._socket = context.socket(zmq.REP)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(_ADDRESS)
        self._task = tasks.start("connection filter", self._answer)

    def allow(self, public: str, platform: int) -> None:
        """Accept connections with this public key as connections of the platform."""
        self._platforms[public] = platform

    def forbid(self, public: str) -> None:
        """Refuse this key from now on, and ignore messages of its open connections."""
        self._platforms.pop(public, None)

    def platform_of(self, public: object) -> int | None:
        """Return the platform of a connection, by the public key that libzmq authenticated."""
        return self._platforms.get(str(public))

    async def _answer(self) -> None:
        while True:
            frames = await self._socket.recv_multipart()
            try:
                verdict = self._verdict(frames)
            except Exception:  # noqa: BLE001 - a REP socket must answer before it can receive again
                _log.failure("The check of a connection to the bus failed; refusing it")
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
                "Refused a bus connection from {address}: its key is unknown",
                address=address.decode("ascii", "replace"),
            )
        return [version, request, _REFUSED, b"unknown key", b"", b""]

    def close(self) -> None:
        """Stop answering."""
        self._task.cancel()
        self._socket.close()


_USER = "User-Id"
_FRAMES = 2
"""Frames of a valid message: its route and its data."""
_DROPPED = 256
"""Frames dropped in a row before other tasks get the event loop."""
_WAITING = 100
"""Queued messages for each peer and direction; further ones are dropped."""
_TURN = 16
"""Messages read in a row before other tasks get the event loop."""
_TURN_BYTES = 1 << 14
"""Bytes read in a row before other tasks get the event loop: 256 KiB take about 20 ms to read."""
_TOPIC_BYTES = 1 << 12
"""The size limit of subscriptions, which libzmq keeps until their connection ends, with some fifty
bytes of memory for each byte. Handshakes need some hundreds of bytes."""
_REFUSED_TOPICS = 20
"""Topics of others for which the processes of a platform may ask in vain. libzmq keeps each with up
to 200 KiB of memory, and can't be told to drop the connection of one peer."""
_REFUSED_BYTES = 1 << 20
"""Excess size up to which a message that is too large still gets an answer."""
_LISTENING = b"\x01"
_REBIND_S = 0.02
"""Pause between attempts to open an address again."""
_FILES = 32
"""Files that the sockets may open at their start: Linux needs 10, the rest is a reserve."""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A received message and its sender."""

    platform: int
    route: bytes
    data: bytes


class DaemonSockets:
    """The daemon's two sockets, open from construction to `close`."""

    def __init__(
        self,
        keys: KeyPair,
        endpoint: str,
        throttle: NamedRateLimits,
        heard: Callable[[ReceivedMessage], Coroutine[Any, Any, None]],
        topics: Callable[[int], Container[bytes]],
        tasks: Tasks,
    ) -> None:
        """Open the sockets.

        `heard` receives each message. `topics` returns the topics that a platform may subscribe to.
        """
        self._heard = heard
        self._topics = topics
        self._throttle = throttle
        _check_room()
        self._context = zmq.asyncio.Context()
        self.allowing = ConnectionFilter(self._context, throttle, tasks)
        limit_ms = handshake_ms(endpoint)
        # libzmq closes the connection of a larger message before it allocates the memory.
        self._asked = self._socket(zmq.ROUTER, keys, limit_ms, LARGEST_BYTES + _REFUSED_BYTES)
        # Reads what has arrived already, without a future for each frame.
        self._ready: zmq.Socket[bytes] = zmq.Socket.shadow(self._asked.underlying)
        self._open_published = partial(self._publisher, keys, limit_ms)
        self._published = self._open_published()
        self.asking = self._bound(self._asked, socket_at(endpoint, ASKED))
        self.listening = self._bound(self._published, socket_at(endpoint, PUBLISHED))
        self._foreign: dict[str, int] = {}
        """The number of refused topics that libzmq keeps, by public key."""
        self._tasks = [
            tasks.start("receiver", self._hear),
            tasks.start("subscriptions", self._let_listen),
        ]

    def _socket(
        self, kind: int, keys: KeyPair, limit_ms: int, most_bytes: int
    ) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.SNDHWM, _WAITING),
            (zmq.RCVHWM, _WAITING),
            (zmq.MAXMSGSIZE, most_bytes),
            (zmq.HANDSHAKE_IVL, limit_ms),
            (zmq.BACKLOG, 1024),
            (zmq.CURVE_SERVER, 1),
        ):
            socket.set(option, value)
        socket.set(zmq.CURVE_SECRETKEY, keys.secret.encode())
        socket.set(zmq.ZAP_DOMAIN, DOMAIN)
        return socket

    def _publisher(self, keys: KeyPair, limit_ms: int) -> zmq.asyncio.Socket:
        socket = self._socket(zmq.XPUB, keys, limit_ms, _TOPIC_BYTES)
        socket.set(zmq.XPUB_MANUAL, 1)
        return socket

    @staticmethod
    def _bound(socket: zmq.asyncio.Socket, endpoint: str) -> str:
        socket.bind(endpoint)
        return str(socket.getsockopt_string(zmq.LAST_ENDPOINT))

    async def _hear(self) -> None:
        while True:
            heard_bytes = 0
            for _ in range(_TURN):
                frames = await self._received()
                await self._take(frames)
                heard_bytes += sum(len(frame) for frame in frames)
                if heard_bytes >= _TURN_BYTES:
                    break
            await asyncio.sleep(0)

    async def _received(self) -> list[zmq.Frame]:
        """Return the first frames of the next message; read and drop all others, in turns.

        libzmq limits the size of each frame, not their number, and delivers a message as a whole.
        """
        frame = await self._asked.recv(copy=False)
        frames, dropped = [frame], 0
        while frame.more:
            frame = self._ready.recv(zmq.NOBLOCK, copy=False)
            if len(frames) <= _FRAMES:
                frames.append(frame)
            else:
                dropped += 1
                if dropped % _DROPPED == 0:
                    await asyncio.sleep(0)
        return frames

    async def _take(self, frames: list[zmq.Frame]) -> None:
        platform = self.allowing.platform_of(frames[-1].get(_USER))
        if platform is None:
            return
        if len(frames) != _FRAMES:
            self._warn(platform, "sent a message in several parts")
            return
        try:
            await self._heard(ReceivedMessage(platform, frames[0].bytes, frames[1].bytes))
        except Exception:  # noqa: BLE001 - a failing message must not stop the others
            _log.failure("Lost a message of platform {platform}", platform=platform)

    async def _let_listen(self) -> None:
        """Accept subscriptions to the topics of a peer's own platform and market only."""
        while True:
            for _ in range(_TURN):
                frame = await self._published.recv(copy=False)
                # libzmq sends unsubscriptions for peers that are gone; these carry no user id.
                if frame.bytes[:1] == _LISTENING and self._subscribe(frame):
                    await self._publish_anew()
            await asyncio.sleep(0)

    def _subscribe(self, frame: zmq.Frame) -> bool:
        """Subscribe the sender if it may; return whether it lost access for asking too much."""
        user, topic = str(frame.get(_USER)), frame.bytes[1:]
        platform = self.allowing.platform_of(user)
        if platform is not None and topic in self._topics(platform):
            # libzmq subscribes the sender of the message that was read last.
            self._published.subscribe(topic)
            return False
        self._foreign[user] = self._foreign.get(user, 0) + 1
        if self._foreign[user] <= _REFUSED_TOPICS:
            if platform is not None:
                self._warn(platform, f"may not subscribe to {topic[:40]!r}")
            return False
        self.allowing.forbid(user)
        _log.error(
            "Cut {platform} off from the bus: it asked for more than {most} topics of others",
            platform="an ended platform" if platform is None else f"platform {platform}",
            most=_REFUSED_TOPICS,
        )
        return True

    async def _publish_anew(self) -> None:
        """Replace the socket of publications, and with it all that libzmq keeps for its peers.

        The peers connect again by themselves, and get what they missed at their next heartbeat.
        """
        old, self._published = self._published, self._open_published()
        self._foreign.clear()
        old.unbind(self.listening)
        old.close()
        while True:
            # libzmq ends the old listener later, in a thread of its own, and removes its file.
            await asyncio.sleep(_REBIND_S)
            with suppress(zmq.ZMQError):
                if not is_there(self.listening):
                    self._bound(self._published, self.listening)
                    return

    def _warn(self, platform: int, what: str) -> None:
        if self._throttle.allows(_warned(platform)):
            _log.warn(
                "Refused on the bus: platform {platform} {what}",
                platform=platform,
                what=what,
            )

    def forget(self, platform: int) -> None:
        """Drop the warning counter of a platform that has ended."""
        self._throttle.forget(_warned(platform))

    async def answer(self, route: bytes, data: bytes) -> None:
        """Send an answer on one connection; it is lost if the connection's queue is full."""
        with suppress(zmq.ZMQError):
            await self._asked.send_multipart([route, data], zmq.NOBLOCK)

    def publish(self, topic: bytes, data: bytes) -> None:
        """Send a message to all subscribers of a topic; slow subscribers miss it."""
        # Never blocks: libzmq drops the message for each peer whose queue is full.
        self._published.send(topic + data, zmq.NOBLOCK)

    def close(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        self.allowing.close()
        self._asked.close()
        self._published.close()
        self._context.term()


def _warned(platform: int) -> object:
    """Return the rate limit key for warnings about refused requests."""
    return "warned", platform


def _check_room() -> None:
    """Raise `OSError` if too few file descriptors are free: libzmq would abort the process."""
    opened: list[int] = []
    try:
        opened.append(os.open(os.devnull, os.O_RDONLY))
        opened.extend(os.dup(opened[0]) for _ in range(_FILES - 1))
    finally:
        for file in opened:
            os.close(file)
