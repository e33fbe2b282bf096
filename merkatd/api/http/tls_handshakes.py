"""TLS handshakes, computed in turns, so that no client can block the others.

# Note [Handshakes]
The event loop computes handshakes: about 10 ms each with an RSA key of 4,096 bits, also for an
unknown client that sends nothing else. So each address has a rate limit of new connections, and a
handshake starts only after the client's complete first message: an idle connection costs next to
nothing and takes no turn. Waiting handshakes are computed one by one, with the addresses in
rotation. After each of them, the turns rest for three times its duration. Addresses with a recent
login have separate turns, with the users in rotation.
Example: forty unknown addresses start 400 handshakes a second. With the key above, the daemon
computes 25 of them a second. Another unknown client waits for at most 40 handshakes, 1.6 s, and a
known user for none of them.
"""

import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol

from merkatd.api.http.connection_places import KnownAddresses
from merkatd.base.rate_limit import RateLimit
from merkatd.service.base.turns import FairTurns

PER_ADDRESS_S = 10.0
"""The most new connections a second of an address, on average."""
BURST_S = 4.0
"""The number of seconds whose average connections may arrive at once."""
_RESTS = 3.0
"""The rest after a handshake, in multiples of its duration."""
_LEAST_REST_S = 0.004
"""The shortest rest after a handshake: opening and closing a connection takes time as well."""
_RECORD_HEAD = 5
_HANDSHAKE = 22
"""The type of the TLS record that contains a client's first message."""
_LONGEST_RECORD = 1 << 14

_log = Logger()


class Handshakes:
    """The turns of the handshakes of a port."""

    def __init__(
        self,
        clock: Any,
        known: KnownAddresses,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._known = known
        self._cpu_s = cpu_s
        self._of_address = RateLimit(PER_ADDRESS_S, BURST_S)
        self._of_strangers = FairTurns(1, per_key=1)
        self._of_known = FairTurns(1, per_key=1)

    def allow(self, address: str) -> bool:
        """Return whether this address may open a connection now; count an allowed connection."""
        return not self._of_address.take(address, self._clock.seconds()) > 0

    def in_turn(self, address: str, work: Callable[[], None]) -> Deferred[None]:
        """Do the work of a handshake in a turn of this address, unless it is cancelled before."""
        user = self._known.user_at(address, self._clock.seconds())
        if user is None:
            return ensureDeferred(self._of_strangers.run(address, lambda: self._one(work)))
        return ensureDeferred(self._of_known.run(user, lambda: self._one(work)))

    async def _one(self, work: Callable[[], None]) -> None:
        began_s = self._cpu_s()
        work()
        took_s = self._cpu_s() - began_s
        await deferLater(self._clock, max(took_s * _RESTS, _LEAST_REST_S))


class _Tls(TLSMemoryBIOProtocol):
    """A TLS connection whose handshake waits for a turn after the client's first message."""

    factory: "TlsFactory"
    transport: Any
    _early: bytes | None = b""
    """The data before the start of the handshake; None after the start."""
    _waiting: Deferred[None] | None = None

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Read arriving data; compute nothing before the first message is complete."""
        if self._early is None:
            super().dataReceived(data)  # type: ignore[no-untyped-call]  # untyped in Twisted
            return
        self._early += data
        if self._waiting is None and first_message_is_whole(self._early):
            self.transport.pauseProducing()
            self._waiting = self.factory.in_turn(self.wrappedProtocol, self._begin)
            self._waiting.addErrback(self._failed)

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802 - Twisted's name
        """Cancel the waiting handshake of a connection that has ended."""
        waits, self._early = self._early is not None, None
        if waits and self._waiting is not None:
            self._waiting.cancel()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # untyped in Twisted

    def _begin(self) -> None:
        early, self._early = self._early, None
        if early is not None:
            self.transport.resumeProducing()
            self.dataReceived(early)

    def _failed(self, failure: Any) -> None:
        if not failure.check(CancelledError):
            _log.failure("A handshake failed", failure=failure)
            self.transport.abortConnection()


def first_message_is_whole(early: bytes) -> bool:
    """Return whether OpenSSL can start: the first record is complete, or is not TLS."""
    if not early or (early[0] == _HANDSHAKE and len(early) < _RECORD_HEAD):
        return False
    length = int.from_bytes(early[3:_RECORD_HEAD], "big")
    if early[0] != _HANDSHAKE or length > _LONGEST_RECORD:
        return True
    return len(early) >= _RECORD_HEAD + length


class TlsFactory(TLSMemoryBIOFactory):
    """The factory of TLS connections: it starts handshakes in turns, for accepted connections."""

    noisy = False
    protocol = _Tls

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802 - Twisted's name
        """Return the connection, or None if it is rejected: Twisted then closes its socket."""
        channel = self.wrappedFactory.buildProtocol(addr)
        return None if channel is None else _Tls(self, channel)  # type: ignore[no-untyped-call]  # untyped in Twisted

    def in_turn(self, channel: Any, work: Callable[[], None]) -> Deferred[None]:
        """Do the work in a turn of the channel's address, or at once for a trusted proxy."""
        if channel.trusted:
            work()
            return succeed(None)
        handshakes: Handshakes = self.wrappedFactory.handshakes
        return handshakes.in_turn(channel.name, work)


def guard(context: Any, factory: Any, reactor: Any) -> TlsFactory:
    """Return a factory that adds TLS to the connections that `factory` accepts."""
    return TlsFactory(context, False, factory, reactor)
