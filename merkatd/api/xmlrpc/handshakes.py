"""TLS handshakes: how many new connections a door accepts, and refusal before the handshake.

A handshake is computed on the event loop: about 10 ms with an RSA key of 4,096 bits, for a stranger
that sends nothing else. So each address and all addresses together have a rate.
"""

from typing import Any

from twisted.protocols.tls import TLSMemoryBIOFactory

from merkatd.api.xmlrpc.rates import Rates

PER_ADDRESS_S = 10.0
"""New connections a second of one address, on average."""
ALL_S = 50.0
"""New connections a second of all addresses."""
BURST_S = 4.0
"""As many seconds' worth of them may come at once."""


class Handshakes:
    """Counts the new connections of one door."""

    def __init__(self) -> None:
        self._of_address = Rates(PER_ADDRESS_S, BURST_S)
        self._of_all = Rates(ALL_S, BURST_S)

    def allow(self, address: str, now_s: float) -> bool:
        """Return whether this address may begin a handshake now; if so, count it."""
        if self._of_address.take(address, now_s) > 0:
            return False
        return not self._of_all.take(None, now_s) > 0


class TlsFactory(TLSMemoryBIOFactory):
    """Begins a handshake only for a connection that its factory accepts."""

    noisy = False

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802 - Twisted's name
        """Return None for a refused connection: Twisted closes its socket at once."""
        channel = self.wrappedFactory.buildProtocol(addr)
        return None if channel is None else self.protocol(self, channel)


def guard(context: Any, factory: Any, reactor: Any) -> TlsFactory:
    """Return a factory that speaks TLS with the connections that `factory` accepts."""
    return TlsFactory(context, False, factory, reactor)
