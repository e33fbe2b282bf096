"""The port where machines ask: /metrics for Prometheus, /healthz for whoever watches over us."""

from collections.abc import Callable
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from twisted.internet.error import CannotListenError
from twisted.web import pages, resource, server

from merkatd.api.metrics.figures import Figures
from merkatd.api.metrics.health import Health

_Resource: Any = resource.Resource  # Twisted's web has no types
_Site: Any = server.Site
_TIMEOUT_S = 30.0


class PortError(Exception):
    """The port can't be opened; the message says why."""


class _Nothing(_Resource):  # type: ignore[misc]  # so it is
    """Has no other children than those that it was given."""

    def getChild(self, _path: bytes, _request: Any) -> Any:  # noqa: N802 - Twisted's name
        """Twisted's own way is deprecated by Twisted."""
        return pages.notFound()


class _Page(_Nothing):
    """A text that is made anew for each who asks."""

    def __init__(self, make: Callable[[Any], bytes]) -> None:
        super().__init__()
        self._make = make

    def render(self, request: Any) -> bytes:
        """Whoever would change something is told that there is nothing to change."""
        if request.method in {b"GET", b"HEAD"}:
            return self._make(request)
        request.setHeader(b"Allow", b"GET, HEAD")
        request.setResponseCode(405)
        return b"GET is right\n"


class _Quiet(_Site):  # type: ignore[misc]  # so it is
    """Those who ask do so every few seconds: a log of it would be a log of nothing else."""

    def log(self, _request: Any) -> None:
        """Nothing."""


def listen(
    reactor: Any, address: str, port: int, figures: Figures, health: Callable[[], Health]
) -> Any:
    """Open the port. Raises PortError."""

    def metrics(request: Any) -> bytes:
        request.setHeader(b"Content-Type", CONTENT_TYPE_LATEST.encode())
        return figures.page()

    def healthz(request: Any) -> bytes:
        found = health()
        request.setHeader(b"Content-Type", b"text/plain; charset=utf-8")
        request.setResponseCode(200 if found.well else 503)
        return f"{'ok' if found.well else 'failing'}: {found.why}\n".encode()

    root = _Nothing()
    root.putChild(b"metrics", _Page(metrics))
    root.putChild(b"healthz", _Page(healthz))
    site = _Quiet(root, timeout=_TIMEOUT_S)
    site.noisy = False
    site.displayTracebacks = False
    try:
        return reactor.listenTCP(port, site, interface=address)
    except CannotListenError as error:
        why = error.socketError.strerror
        raise PortError(f"metrics.port: {address}:{port}: {why}") from None
