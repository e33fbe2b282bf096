"""A connection to the bus with a platform's keys that sends arbitrary bytes."""

import asyncio
from typing import Any

import zmq
import zmq.asyncio

from merkatd.bus.peer import Peer
from merkatd.protocol.bus_messages import FROM_DAEMON, Hello, Welcome
from merkatd.protocol.curve_keys import Passport
from merkatd.protocol.wire_format import Envelope, pack, unpack
from tests.bus.rig import (
    CONTROLLER,
    Site,
    news,
    parts,
    soon,
)


class Raw:
    """A connection with a platform's keys that sends arbitrary bytes."""

    def __init__(self, site: Site, passport: Passport) -> None:
        self.context = zmq.asyncio.Context()
        site.stack.callback(self.close)
        self.socket = self.context.socket(zmq.DEALER)
        self.listening = self.context.socket(zmq.SUB)
        for socket in (self.socket, self.listening):
            socket.set(zmq.CURVE_SERVERKEY, passport.daemon.encode())
            socket.set(zmq.CURVE_PUBLICKEY, passport.public.encode())
            socket.set(zmq.CURVE_SECRETKEY, passport.secret.encode())
        self.socket.connect(passport.asking)
        self.listening.connect(passport.listening)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close(0)
        self.listening.close(0)
        self.context.term()

    async def ask(self, data: bytes | Envelope) -> Any:
        """Return the body of the answer."""
        await self.socket.send(pack(data) if isinstance(data, Envelope) else data)
        return unpack(await soon(self.socket.recv()), FROM_DAEMON).body

    async def greet(self, role: str = CONTROLLER) -> Welcome:
        """Open a session and return the welcome."""
        welcome = await self.ask(Envelope(Hello(role=role), number=1))
        assert isinstance(welcome, Welcome)
        return welcome


async def readable(socket: zmq.asyncio.Socket, wait_ms: int) -> bool:
    """Return whether the socket becomes readable in time."""
    events: Any = await socket.poll(wait_ms)  # a poller's result has no type
    return bool(events)


async def await_subscription(site: Site, peer: Peer, platform: int = 1) -> None:
    """Wait until a peer receives publications, which libzmq delays for a moment."""
    while peer.waiting() is None:
        site.hub.announce(*parts(news(platform, 0)))
        await asyncio.sleep(0.01)
    # All messages in transit have arrived.
    await asyncio.sleep(0.05)
    while peer.waiting() is not None:
        pass
