"""TLS handshakes: computed in turn, so that nobody's connections keep others out.

# Note [Handshakes]
A handshake is computed on the event loop: about 10 ms with an RSA key of 4,096 bits, for a stranger
that sends nothing else. So an address has a rate of new connections, and a handshake begins only
once its first message is there whole: a connection alone costs next to nothing, and takes nobody's
turn. Handshakes that wait are computed one by one, an address after the other, with a rest after
each that is as long as what it took, three times. Addresses from which somebody logged in lately
have turns of their own, a user after the other.
Example: forty strange addresses begin 400 handshakes a second; with the key above 25 of them are
computed. Another stranger waits for 40 of them at most, 1.6 s, and a user who has been here before
for none.
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
"""New connections a second of one address, on average."""
BURST_S = 4.0
"""As many seconds' worth of them may come at once."""
_RESTS = 3.0
"""After each handshake the turns rest for so many times as long as it took,"""
_LEAST_REST_S = 0.004
"""and at least so long: opening and closing a connection costs time as well."""
_RECORD_HEAD = 5
_HANDSHAKE = 22
"""The type of the TLS record in which a client's first message stands."""
_LONGEST_RECORD = 1 << 14

_log = Logger()


class Handshakes:
    """The turns of one door."""

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
        """Return whether this address may open a connection now; if so, count it."""
        return not self._of_address.take(address, self._clock.seconds()) > 0

    def in_turn(self, address: str, work: Callable[[], None]) -> Deferred[None]:
        """Do the work of a handshake when it is this address's turn; cancelled, it is left out."""
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
    """A connection that waits for its turn once the client's first message is there."""

    factory: "TlsFactory"
    transport: Any
    _early: bytes | None = b""
    """What came until the handshake has begun; then None."""
    _waiting: Deferred[None] | None = None

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Something came; before the first message is whole nothing is computed."""
        if self._early is None:
            super().dataReceived(data)  # type: ignore[no-untyped-call]  # so it is
            return
        self._early += data
        if self._waiting is None and first_message_is_whole(self._early):
            self.transport.pauseProducing()
            self._waiting = self.factory.in_turn(self.wrappedProtocol, self._begin)
            self._waiting.addErrback(self._failed)

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802 - Twisted's name
        """It has ended; one that waited takes no turn any more."""
        waits, self._early = self._early is not None, None
        if waits and self._waiting is not None:
            self._waiting.cancel()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # so it is

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
    """Return whether OpenSSL can begin: the first record is there, or it is none of TLS."""
    if not early or (early[0] == _HANDSHAKE and len(early) < _RECORD_HEAD):
        return False
    length = int.from_bytes(early[3:_RECORD_HEAD], "big")
    if early[0] != _HANDSHAKE or length > _LONGEST_RECORD:
        return True
    return len(early) >= _RECORD_HEAD + length


class TlsFactory(TLSMemoryBIOFactory):
    """Begins a handshake only for a connection that its factory accepts, and in its turn."""

    noisy = False
    protocol = _Tls

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802 - Twisted's name
        """Return None for a refused connection: Twisted closes its socket at once."""
        channel = self.wrappedFactory.buildProtocol(addr)
        return None if channel is None else _Tls(self, channel)  # type: ignore[no-untyped-call]  # so it is

    def in_turn(self, channel: Any, work: Callable[[], None]) -> Deferred[None]:
        """Do this when it is the turn of the channel's address; a trusted proxy's is at once."""
        if channel.trusted:
            work()
            return succeed(None)
        handshakes: Handshakes = self.wrappedFactory.handshakes
        return handshakes.in_turn(channel.name, work)


def guard(context: Any, factory: Any, reactor: Any) -> TlsFactory:
    """Return a factory that speaks TLS with the connections that `factory` accepts."""
    return TlsFactory(context, False, factory, reactor)
