"""The listening ports of the HTTP servers, with or without TLS."""

import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates
from OpenSSL import SSL
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IOpenSSLContextFactory
from twisted.web.http import HTTPFactory
from zope.interface import implementer  # type: ignore[import-untyped]  # it has no types

from merkatd.api.http.connection_places import (
    ConnectionPlaces,
    ConnectionsByAddress,
    KnownAddresses,
)
from merkatd.api.http.forwarded_addresses import TrustedProxies, counted_address
from merkatd.api.http.http_channel import Channel
from merkatd.api.http.http_request import Bodies, PlainBodies
from merkatd.api.http.settings import ApiSettings
from merkatd.api.http.tls_handshakes import Handshakes, guard

_CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20"
"""The ciphers of TLS 1.2 for which the server only computes a signature, after the client's first
message. All ciphers of TLS 1.3 have this property."""


class CertificateError(Exception):
    """The files hold no certificate with its key; the message names the expected contents."""


@implementer(IOpenSSLContextFactory)
class ServerContext:
    """The TLS context of a port: TLS 1.2 or newer. Raise CertificateError."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = certificate, key
        self._context = _context_of(certificate, key)

    def getContext(self) -> SSL.Context:  # noqa: N802 - Twisted's name
        """Return the context, the same for all connections until the certificate is renewed."""
        return self._context

    def renew(self) -> None:
        """Read the files again, for later connections. Raise CertificateError."""
        self._context = _context_of(*self._files)


def _context_of(certificate: Path, key: Path) -> SSL.Context:
    """Return a context with a certificate, its chain of signers, and its key."""
    try:
        own, *signers = load_pem_x509_certificates(_read(certificate))
    except ValueError:
        raise CertificateError(f"{certificate}: holds no certificate in PEM format") from None
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(SSL.OP_NO_RENEGOTIATION)
    context.set_cipher_list(_CIPHERS)
    try:
        context.use_certificate(own)
        for signer in signers:
            context.add_extra_chain_cert(signer)
        private: Any = load_pem_private_key(_read(key), password=None)
        context.use_privatekey(private)
        context.check_privatekey()
    except (SSL.Error, ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError(
            f"{key}: must hold the key of the certificate in {certificate}, in PEM format and"
            " without a password"
        ) from None
    return context


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: can't be read: {error.strerror}") from None


_SWEEP_S = 1.0
_MIB = 1 << 20
_UNREAD_BYTES = 1 << 18
"""The system's buffer for unread answers of a connection."""


class NotServedError(Exception):
    """The port can't be opened as configured; the message says why."""


class PortSettings(Protocol):
    """The settings of a port in a section of the configuration."""

    @property
    def address(self) -> str:
        """Return the address on which it listens."""

    @property
    def port(self) -> int:
        """Return the port number; 0 is any free port."""

    @property
    def certificate(self) -> str:
        """Return the file of the certificate, or an empty text."""

    @property
    def key(self) -> str:
        """Return the file of the key, or an empty text if the certificate's file has it."""

    @property
    def plain(self) -> bool:
        """Return whether other machines may connect without TLS."""


class ListeningPort:
    """An open port."""

    def __init__(self, port: Any, factory: "CallFactory", context: ServerContext | None) -> None:
        self._port = port
        self._factory = factory
        self._context = context
        host: Any = self._port.getHost()
        scheme, name = "https" if context else "http", f"[{host.host}]"
        self.port: int = host.port
        self.address = f"{scheme}://{name if ':' in host.host else host.host}:{host.port}/"
        self.endpoint = f"{self.address}RPC2"

    def renew(self) -> None:
        """Read the certificate again, if the port has any. Raise CertificateError."""
        if self._context is not None:
            self._context.renew()

    async def close(self) -> None:
        """Close the port and all its connections."""
        await self._port.stopListening()
        self._factory.drop_all()


def opened(
    reactor: Any, settings: PortSettings, factory: "CallFactory", section: str
) -> ListeningPort:
    """Open a port with the settings of a section. Raise NotServedError."""
    context: ServerContext | None = None
    if not (settings.certificate or settings.plain or _is_loopback(settings.address)):
        raise NotServedError(
            f"{section}.address: other machines can reach {settings.address}; set"
            f" {section}.certificate, or set {section}.plain to send passwords without encryption"
        )
    where = {"interface": settings.address}
    try:
        if settings.certificate:
            key = Path(settings.key or settings.certificate)
            context = ServerContext(Path(settings.certificate), key)
            factory.handshakes = Handshakes(reactor, factory.known)
            guarded = guard(context, factory, reactor)
            port = reactor.listenTCP(settings.port, guarded, **where)
        else:
            port = reactor.listenTCP(settings.port, factory, **where)
    except CertificateError as error:
        raise NotServedError(f"{section}.certificate: {error}") from None
    except CannotListenError as error:
        why = error.socketError.strerror
        at = f"{settings.address}:{settings.port}"
        raise NotServedError(
            f"{section}.port: {at}: {why}; choose another port, or end the program that uses it"
        ) from None
    # Connections inherit this bound. The system's default allows several MiB per connection.
    port.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNREAD_BYTES)
    return ListeningPort(port, factory, context)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


class CallFactory(HTTPFactory):
    """The connections of a port: it accepts new ones, and ends some to make room for others."""

    noisy = False
    speaks: type[Channel] = Channel
    handshakes: Handshakes | None = None
    """The turns of handshakes, if the port has a certificate."""

    def __init__(
        self,
        reactor: Any,
        settings: ApiSettings,
        answer: Callable[..., Any],
        proxies: TrustedProxies,
        known: KnownAddresses | None = None,
        bodies: Bodies | None = None,
    ) -> None:
        # `_sweep` checks the times of all connections at once, instead of a timer for each.
        super().__init__(reactor=reactor, timeout=None)  # type: ignore[arg-type]  # None: no timer
        self.clock = reactor
        """The clock for the time and for delayed calls."""
        self.answer = answer
        self.settings = settings
        self.proxies = proxies
        self.bodies: Bodies = bodies or PlainBodies()
        self.known = known or KnownAddresses()
        self.body_bytes = int(settings.body_mib * _MIB)
        self.places = ConnectionPlaces(
            settings.connections, settings.connections_per_address, self.known, reactor
        )
        self.callers = ConnectionsByAddress(settings.connections_per_address)
        """The trusted proxies' connections, by the address of the unanswered call on each."""
        self._sweeping: Any = None

    def startFactory(self) -> None:  # noqa: N802 - Twisted's name
        """Start checking times when the port opens."""
        self._sweeping = self.clock.callLater(_SWEEP_S, self._sweep)

    def stopFactory(self) -> None:  # noqa: N802 - Twisted's name
        """Stop checking times when the port closes."""
        if self._sweeping is not None and self._sweeping.active():
            self._sweeping.cancel()

    def buildProtocol(self, address: Any) -> Any:  # noqa: N802 - Twisted's name
        """Return a connection, or None to reject it if there are too many."""
        host = address.host
        name, trusted = counted_address(host), self.proxies.trust(host)
        if not trusted and (self.places.has_enough(name) or not self._may_come(name)):
            return None
        if not self.places.makes_room(name, trusted=trusted):
            return None
        channel = self.speaks(self, host, self.clock.seconds)
        channel.name, channel.trusted = name, trusted
        self.places.take(name, channel)
        return channel

    def _may_come(self, name: str) -> bool:
        return self.handshakes is None or self.handshakes.allow(name)

    def gone(self, channel: Channel) -> None:
        """Release the place of a connection that has ended."""
        self.places.leave(channel.name, channel)

    def drop_all(self) -> None:
        """End every connection at once."""
        for channel in self.places:
            channel.abort()

    def log(self, request: Any) -> None:
        """Log nothing: there are thousands of calls, and each contains a password."""

    def _sweep(self) -> None:
        for channel in self.places:
            channel.look_at_the_clock(self.clock.seconds())
        self._sweeping = self.clock.callLater(_SWEEP_S, self._sweep)
