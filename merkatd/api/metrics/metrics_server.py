"""The HTTP port with /metrics and /healthz."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from twisted.internet.error import CannotListenError

from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.http_channel import Channel
from merkatd.api.http.http_request import HttpCall
from merkatd.api.http.http_server import CallFactory
from merkatd.api.http.settings import ApiSettings as Bounds
from merkatd.api.metrics.metric_registry import MetricRegistry
from merkatd.database.scheduler.order_store import Mode

MOST_FAILURES = 3
"""Failed periods in a row that make the daemon unhealthy: a single failure needs no action."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the daemon, and the reason."""

    well: bool
    why: str


def health(failures: int, standby: str | None, *, paused: bool, mode: Mode = Mode.ON) -> Health:
    """Return the health: bad if periods fail, good also while paused or standing by."""
    if failures >= MOST_FAILURES:
        return Health(False, f"the last {failures} periods failed; the log says why")
    if standby is not None:
        return Health(True, f"standing by: {standby}")
    if paused:
        return Health(True, "paused")
    return Health(True, "acting" if mode is Mode.ON else f"mode {mode}")


_BOUNDS = Bounds(body_mib=1 / 1024, connections=64, connections_per_address=32)
_Page = tuple[int, bytes, bytes]
"""A page: status, content type and body."""
_KEPT_S = 1.0


class CachedPage:
    """A page that is made at most once a second, for any number of requests."""

    def __init__(self, make: Callable[[], _Page], seconds: Callable[[], float]) -> None:
        self._make = make
        self._seconds = seconds
        self._page: _Page | None = None
        self._made_s = 0.0

    def page(self) -> _Page:
        """Return the page, at most a second old."""
        now_s = self._seconds()
        if self._page is None or abs(now_s - self._made_s) >= _KEPT_S:
            self._page, self._made_s = self._make(), now_s
        return self._page


class PortError(Exception):
    """The port can't be opened; the message says why."""


class _Look(HttpCall):
    """A request for metrics or health."""

    channel: "_Looker"

    def process(self) -> None:
        """Send the requested page."""
        make = self.channel.factory.pages.get(self.path)
        if make is None:
            self._say(404, b"text/plain", b"/metrics and /healthz are served here\n")
        elif self.method not in {b"GET", b"HEAD"}:
            self._say(405, b"text/plain", b"Use GET or HEAD.\n", b"Allow: GET, HEAD\r\n")
        elif self.size > self.channel.factory.body_bytes:
            self._say(413, b"text/plain", b"The request must have no body.\n")
        else:
            self._say(*make())


class _Looker(Channel):
    """A connection of the metrics port."""

    factory: "_Pages"

    def __init__(self, factory: Any, address: str, seconds: Any) -> None:
        super().__init__(factory, address, seconds)
        self.requestFactory: Any = _Look


class _Pages(CallFactory):
    """The factory of the metrics port's connections, with the bounds of the other ports."""

    speaks = _Looker

    def __init__(self, reactor: Any, pages: Mapping[bytes, Callable[[], _Page]]) -> None:
        super().__init__(reactor, _BOUNDS, lambda: None, TrustedProxies(()))
        self.pages = pages


def listen(
    reactor: Any, address: str, port: int, figures: MetricRegistry, health: Callable[[], Health]
) -> Any:
    """Open the port. Raise PortError."""

    def metrics() -> _Page:
        return 200, CONTENT_TYPE_LATEST.encode(), figures.page()

    def healthz() -> _Page:
        state = health()
        text = f"{'ok' if state.well else 'failing'}: {state.why}\n"
        return 200 if state.well else 503, b"text/plain; charset=utf-8", text.encode()

    kept = CachedPage(metrics, reactor.seconds)
    pages = _Pages(reactor, {b"/metrics": kept.page, b"/healthz": healthz})
    try:
        return reactor.listenTCP(port, pages, interface=address)
    except CannotListenError as error:
        why = error.socketError.strerror
        raise PortError(
            f"metrics.port: {address}:{port}: {why}; choose another port, or end the program that"
            " uses it"
        ) from None
