"""Calls over https: the server has to prove its name, to the system's authorities or a file's.

There is no way to do without.
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
"""How long a connection that nobody uses is kept: less than the 15 s after which oned ends it."""

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
    """The file of certificates can't be used; the message names it."""


class SecureHttp:
    """The way to one server."""

    def __init__(
        self,
        reactor: Any,
        url: SplitResult,
        *,
        connections: int,
        authorities: Path | None,
    ) -> None:
        """Keep up to so many `connections`.

        `authorities` is a file of certificates (PEM) that are trusted instead of the system's.
        Raises TrustError.
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
        """The body of the answer, in pieces, up to `most_bytes`. Raises OSError or NoReplyError."""
        try:
            return await self._exchange(body, most_bytes)
        except _LOST as error:
            raise ConnectionError(_reason(error)) from error

    async def close(self) -> None:
        """End the connections that are kept."""
        await self._pool.closeCachedConnections()

    async def _exchange(self, body: bytes, most_bytes: int) -> list[bytes]:
        headers = Headers({b"Content-Type": [b"text/xml"], b"User-Agent": [b"merkatd"]})
        response = await self._agent.request(b"POST", self._url, headers, _Body(body))
        received = _Received(most_bytes)
        response.deliverBody(received)
        chunks = await received.whole
        if response.code != _OK:
            raise NoReplyError(f"the answer is HTTP {response.code}")
        return chunks


@implementer(IAgentEndpointFactory)
class _Endpoints:
    """Where requests go; an address in numbers is not looked up first.

    Twisted's own factory has every name looked up by a thread, and oned ends a connection after
    each call, so that this would be done for each.
    """

    def __init__(self, reactor: Any, policy: Any) -> None:
        self._reactor = reactor
        self._policy = policy

    def endpointForURI(self, uri: Any) -> Any:  # noqa: N802 - Twisted's name
        """The server of an address."""
        host = uri.host.decode("ascii")
        kind: Any = TCP4ClientEndpoint if isIPAddress(host) else HostnameEndpoint
        endpoint = kind(self._reactor, host, uri.port)
        return wrapClientTLS(self._policy.creatorForNetloc(uri.host, uri.port), endpoint)


def _trust(authorities: Path | None) -> Any:
    if authorities is None:
        return platformTrust()  # type: ignore[no-untyped-call]  # so it is
    try:
        found = _CERTIFICATE.findall(authorities.read_bytes())
        certificates = [Certificate.loadPEM(pem) for pem in found]
    except OSError as error:
        raise TrustError(f"{authorities}: can't be read: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - whatever the library says of what is no certificate
        raise TrustError(f"{authorities}: holds what is no certificate: {error}") from None
    if not certificates:
        raise TrustError(f"{authorities}: holds no certificate; PEM is right")
    return trustRootFromCertificates(certificates)  # type: ignore[no-untyped-call]  # so it is


def _reason(error: Exception) -> str:
    """What went wrong beneath the layers of the HTTP client."""
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
        """Write it."""
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """It has been written."""

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """It has been written."""

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """It has been written."""


class _Received(Connection):
    """A response's body as it arrives, up to a size."""

    def __init__(self, most_bytes: int) -> None:
        self.whole: Deferred[list[bytes]] = Deferred(lambda _: self._abort())
        self._chunks: list[bytes] = []
        self._most_bytes = most_bytes
        self._size = 0

    def dataReceived(self, data: bytes) -> None:  # noqa: N802 - Twisted's name
        """Keep it."""
        self._size += len(data)
        if self._size <= self._most_bytes:
            self._chunks.append(data)
        elif not self.whole.called:
            self.whole.errback(TooLongError(self._most_bytes, head_of([*self._chunks, data])))
            self._abort()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802 - Twisted's name
        """It is whole, or never will be."""
        if self.whole.called:
            return
        # Where no length was said, only the reader of the text can tell whether it is whole.
        if reason.check(ResponseDone, PotentialDataLoss):
            self.whole.callback(self._chunks)
        else:
            self.whole.errback(reason)

    def _abort(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.loseConnection()
