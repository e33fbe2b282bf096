"""The XML-RPC server of a cloud, at /RPC2; it never blocks the reactor for long."""

from __future__ import annotations

import xmlrpc.client
from typing import TYPE_CHECKING, Any
from weakref import WeakSet
from xml.parsers.expat import ExpatError

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

from merkatd.base.deferreds import wait_seconds
from merkatd.embedded.machines.faults import FaultKind
from merkatd.embedded.model.errors import OneFault
from merkatd.embedded.render.render_cache import PoolReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from merkatd.embedded.cloud import CallReply, EmbeddedCloud

_log = Logger()

_ROWS_PER_PAGE = 100
_TURN_S = 0.010
_CHUNK_BYTES = 1 << 18
_BODY_BYTES = 1 << 26
_HEAD = (
    b'<?xml version="1.0" encoding="UTF-8"?>\r\n<methodResponse><params><param><value><array>'
    b"<data><value><boolean>1</boolean></value><value><string>"
)
_TAIL = (
    b"</string></value><value><int>0</int></value></data></array></value></param></params>"
    b"</methodResponse>\r\n"
)
_NO_CALL = (
    ExpatError,
    xmlrpc.client.Error,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""The exceptions of the standard library's parser for invalid input."""
PARSE_ERROR = -503
TOO_LARGE = -509


class RpcServer:
    """A listening port of a cloud."""

    def __init__(self, port: Any, site: _Site) -> None:
        self._port = port
        self._site = site
        address = port.getHost()
        self.host: str = address.host
        self.port: int = address.port

    @property
    def endpoint(self) -> str:
        """The address that clients need."""
        return f"http://{self.host}:{self.port}/RPC2"

    async def stop(self) -> None:
        """Close the port and every connection."""
        await self._port.stopListening()
        self._site.drop_all()


def serve(cloud: EmbeddedCloud, reactor: Any, host: str = "127.0.0.1", port: int = 0) -> RpcServer:
    """Serve a cloud on a port of any Twisted reactor; port 0 lets the system choose."""
    root: Any = Resource()  # type: ignore[no-untyped-call]  # Twisted's web has no types
    endpoint = _Endpoint(cloud, reactor)
    root.putChild(b"RPC2", endpoint)
    root.putChild(b"", endpoint)
    site = _Site(root, reactor)
    return RpcServer(reactor.listenTCP(port, site, interface=host), site)


class _Site(Site):
    """A site that logs no requests and tracks its connections."""

    noisy = False
    displayTracebacks = False  # noqa: N815 - Twisted's name

    def __init__(self, resource: Resource, reactor: Any) -> None:
        super().__init__(resource, reactor=reactor)  # type: ignore[no-untyped-call]  # untyped
        self.transports: WeakSet[Any] = WeakSet()

    def log(self, request: Any) -> None:
        """Log nothing: tests and demos make thousands of calls."""

    def drop_all(self) -> None:
        """Abort every connection."""
        for transport in list(self.transports):
            transport.abortConnection()


class _Endpoint(Resource):
    isLeaf = True  # noqa: N815 - Twisted's name

    def __init__(self, cloud: EmbeddedCloud, reactor: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped
        self._cloud = cloud
        self._reactor = reactor

    def render_GET(self, request: Any) -> bytes:  # noqa: N802 - Twisted's name
        """Refuse GET."""
        request.setResponseCode(405)
        return b"expected an XML-RPC call by POST"

    def render_POST(self, request: Any) -> int:  # noqa: N802 - Twisted's name
        """Start the exchange of one call."""
        request.site.transports.add(request.transport)
        exchange = _Exchange(request, self._cloud, self._reactor)
        ensureDeferred(exchange.run()).addErrback(exchange.broken)
        return NOT_DONE_YET


class _Exchange:
    """The exchange of one call: parse it, execute it, render it in turns, send it in chunks."""

    def __init__(self, request: Any, cloud: EmbeddedCloud, reactor: Any) -> None:
        self._request = request
        self._cloud = cloud
        self._reactor = reactor
        self._gone = False
        request.notifyFinish().addErrback(self._lost)

    async def run(self) -> None:
        """Execute the call and send its reply."""
        try:
            method, arguments = _parse(self._request)
            reply = self._cloud.call(method, arguments)
        except OneFault as fault:
            self._send([xmlrpc.client.dumps(xmlrpc.client.Fault(fault.code, fault.text)).encode()])
            return
        if reply.verdict.fate is FaultKind.HANG:
            return
        body = await self._render(reply)
        if reply.verdict.delay_s > 0:
            await wait_seconds(self._reactor, reply.verdict.delay_s)
        if self._gone:
            return
        if reply.verdict.fate is FaultKind.LOSE:
            self._request.loseConnection()
            return
        self._send(body)

    def broken(self, failure: Any) -> None:
        """Send an internal error as a fault, so that the client does not wait."""
        if not self._gone:
            text = f"internal error: {failure.getErrorMessage()}"
            self._send([xmlrpc.client.dumps(xmlrpc.client.Fault(-500, text)).encode()])
        _log.failure("A call ended in an internal error", failure=failure)

    async def _render(self, reply: CallReply) -> list[bytes]:
        if reply.verdict.fate is FaultKind.GARBAGE:
            return [b"<html>\x00 this is no answer"]
        pages = reply.value
        if not isinstance(pages, PoolReply) or reply.verdict.fate is not None:
            value: Any = reply.plain()
            return [xmlrpc.client.dumps((value,), methodresponse=True).encode()]
        body = [_HEAD]
        turn_s = self._reactor.seconds()
        for page in pages.wire_pages(_ROWS_PER_PAGE):
            body.append(page)
            if self._reactor.seconds() - turn_s > _TURN_S:
                await wait_seconds(self._reactor, 0)
                turn_s = self._reactor.seconds()
        body.append(_TAIL)
        return body

    def _send(self, body: Sequence[bytes]) -> None:
        if self._gone:
            return
        request = self._request
        request.setHeader(b"Content-Type", b"text/xml; charset=utf-8")
        request.setHeader(b"Content-Length", str(sum(map(len, body))).encode())
        if len(body) == 1 and len(body[0]) < _CHUNK_BYTES:
            request.write(body[0])
            request.finish()
        else:
            chunks = _Chunks(request, body)
            request.registerProducer(chunks, streaming=True)
            chunks.resumeProducing()

    def _lost(self, _failure: Any) -> None:
        self._gone = True


class _Chunks:
    """A producer that sends a long body as fast as the client accepts it.

    It is a push producer: Twisted pulls from others with its global reactor, which may differ
    from this cloud's reactor.
    """

    def __init__(self, request: Any, pages: Sequence[bytes]) -> None:
        self._request = request
        self._pages = pages
        self._next = 0
        self._paused = False

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Send until the client accepts no more."""
        self._paused = False
        while not self._paused and self._next < len(self._pages):
            self._send_some()
            if self._next == len(self._pages):
                self._request.unregisterProducer()
                self._request.finish()

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Pause sending."""
        self._paused = True

    def stopProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Stop sending: the client has disconnected."""
        self._paused = True
        self._next = len(self._pages)

    def _send_some(self) -> None:
        chunk, size = [], 0
        while self._next < len(self._pages) and size < _CHUNK_BYTES:
            page = self._pages[self._next]
            chunk.append(page)
            size += len(page)
            self._next += 1
        self._request.write(b"".join(chunk))


def _parse(request: Any) -> tuple[str, tuple[Any, ...]]:
    content = request.content
    body = content.read(_BODY_BYTES + 1) if content is not None else b""
    if len(body) > _BODY_BYTES:
        raise OneFault(TOO_LARGE, f"the call is too long; the limit is {_BODY_BYTES} bytes")
    try:
        arguments, method = xmlrpc.client.loads(body)
    except _NO_CALL as error:
        raise OneFault(PARSE_ERROR, f"invalid XML-RPC call: {error}") from None
    if method is None:
        raise OneFault(PARSE_ERROR, "the call has no method name")
    return method, arguments
