"""Calls over https: the server's certificate must be valid for its name.

It is verified by the system's authorities or those of a file. Verification can't be disabled.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

from twisted.internet.abstract import isIPAddress
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, wrapClientTLS
from twisted.internet.error import ConnectError, ConnectionClosed
from twisted.internet.error import TimeoutError as ConnectTimeoutError
from twisted.internet.protocol import Protocol as Connection
from twisted.internet.ssl import Certificate, platformTrust, trustRootFromCertificates
from twisted.web.client import (  # type: ignore[attr-defined]  # one is not in its list
    Agent,
    BrowserLikePolicyForHTTPS,
    HTTPConnectionPool,
    RequestNotSent,
    RequestTransmissionFailed,
    ResponseDone,
    ResponseFailed,
)
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer  # type: ignore[import-untyped]  # so it is

from merkatd.opennebula.rpc.http_reply import NoReplyError, TooLongError, head_of

_OK = 200
_KEPT_S = 10
"""How long an idle connection is kept: less than the 15 s after which oned closes it."""

_LOST = (
    ConnectError,
    ConnectTimeoutError,
    ConnectionClosed,
    RequestNotSent,
    RequestTransmissionFailed,
    ResponseFailed,
    OSError,
)


_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class TrustError(Exception):
    """An unusable file of certificates; the message names it."""


class SecureHttp:
    """The https client of a server."""

    def __init__(
        self,
        reactor: Any,
        url: SplitResult,
        *,
        connections: int,
        authorities: Path | None,
    ) -> None:
        """Keep at most this number of idle `connections`. Raise TrustError.

        `authorities` is a file of certificates (PEM) that are trusted instead of the system's.
        """
        self._url = url.geturl().encode("ascii")
        self._pool: Any = HTTPConnectionPool(reactor)  # type: ignore[no-untyped-call]  # Twisted's web has no types
        self._pool.maxPersistentPerHost = connections
        self._pool.cachedConnectionTimeout = _KEPT_S
        policy: Any = BrowserLikePolicyForHTTPS(_trust(authorities))  # type: ignore[no-untyped-call]  # so it is
        self._agent: Any = Agent.usingEndpointFactory(  # type: ignore[no-untyped-call]  # so it is
            reactor, _Endpoints(reactor, policy), pool=self._pool
        )

    async def exchange(self, body: bytes, most_bytes: int) -> list[bytes]:
        """Send a request and return the answer's body of at most `most_bytes`, in pieces.

        Raise OSError or NoReplyError.
        """
        try:
            return await self._exchange(body, most_bytes)
        except _LOST as error:
            raise ConnectionError(_reason(error)) from error

    async def close(self) -> None:
        """Close all idle connections."""
        await self._pool.closeCachedConnections()

    async def _exchange(self, body: bytes, most_bytes: int) -> list[bytes]:
        headers = Headers({b"Content-Type": [b"text/xml"], b"User-Agent": [b"merkatd"]})
        response = await self._agent.request(b"POST", self._url, headers, _Body(body))
        received = _Received(most_bytes)
        response.deliverBody(received)
        chunks = await received.whole
        if response.code != _OK:
            raise NoReplyError(f"the answer's HTTP status must be {_OK} (got {response.code})")
        return chunks


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """The endpoints of requests; numeric addresses are not resolved.

    Twisted's own factory resolves every name in a thread. As oned closes the connection after each
    call, this would happen for each call.
    """

    def __init__(self, reactor: Any, policy: Any) -> None:
        self._reactor = reactor
        self._policy = policy

    def endpointForURI(self, uri: Any) -> Any:  # noqa: N802 - Twisted's name
        """Return the endpoint of a server's address."""
        host = uri.host.decode("ascii")
        kind: Any = TCP4ClientEndpoint if isIPAddress(host) else HostnameEndpoint
        endpoint = kind(self._reactor, host, uri.port)
        return wrapClientTLS(self._policy.creatorForNetloc(uri.host, uri.port), endpoint)


def _trust(authorities: Path | None) -> Any:
    if authorities is None:
        return platformTrust()  # type: ignore[no-untyped-call]  # so it is
    try:
        texts = _CERTIFICATE.findall(authorities.read_bytes())
        certificates = [Certificate.loadPEM(pem) for pem in texts]
    except OSError as error:
        raise TrustError(f"{authorities}: can't be read: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - the library's errors for invalid certificates vary
        raise TrustError(f"{authorities}: contains an invalid certificate: {error}") from None
    if not certificates:
        raise TrustError(
            f"{authorities}: contains no certificate; expected certificates in PEM format"
        )
    return trustRootFromCertificates(certificates)  # type: ignore[no-untyped-call]  # so it is


def _reason(error: Exception) -> str:
    """Return the innermost reason of an error of the HTTP client."""
    reasons = getattr(error, "reasons", None)
    if reasons:
        return ", ".join(failure.getErrorMessage() for failure in reasons)
    return str(error) or type(error).__name__


class _Body:
    """A request's body, small enough to be written at once."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length = len(body)

    def startProducing(self, consumer: Any) -> Deferred[None]:  # noqa: N802 - Twisted's name
        """Write the body."""
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Do nothing: the body is written already."""

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Do nothing: the body is written already."""

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Do nothing: the body is written already."""


class _Received(Connection):
    """A response's body that is being received, up to a size."""

    def __init__(self, most_bytes: int) -> None:
        self.whole: Deferred[list[bytes]] = Deferred(lambda _: self._abort())
        self._chunks: list[bytes] = []
        self._most_bytes = most_bytes
        self._size = 0

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Store received bytes, or fail if they are too many."""
        self._size += len(data)
        if self._size <= self._most_bytes:
            self._chunks.append(data)
        elif not self.whole.called:
            self.whole.errback(TooLongError(self._most_bytes, head_of([*self._chunks, data])))
            self._abort()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802 - Twisted's name
        """Finish with the body, or fail if it is incomplete."""
        if self.whole.called:
            return
        # Without a length, only the XML parser can find out whether the body is complete.
        if reason.check(ResponseDone, PotentialDataLoss):
            self.whole.callback(self._chunks)
        else:
            self.whole.errback(reason)

    def _abort(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.loseConnection()
