"""The web page's port, and the connections of browsers to it."""

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

from twisted.internet.defer import CancelledError, ensureDeferred
from twisted.logger import Logger

from merkatd.api.http.connection_places import KnownAddresses
from merkatd.api.http.forwarded_addresses import TrustedProxies
from merkatd.api.http.http_channel import Channel
from merkatd.api.http.http_request import MANY_AT_ONCE, HttpCall
from merkatd.api.http.http_server import CallFactory, ListeningPort, opened
from merkatd.api.http.settings import ApiSettings as CallSettings
from merkatd.api.xmlrpc.dispatch import Dispatch, printable
from merkatd.scheduler.period import Scheduler
from merkatd.web.base.form_reader import MOST_LONG_BYTES, Form, decoded
from merkatd.web.base.goals import Goals
from merkatd.web.base.live_updates import Listener, Listeners
from merkatd.web.base.period_recorder import PeriodRecorder
from merkatd.web.base.responses import HEADERS, BrowserRequest, LiveResponse, PageResponse
from merkatd.web.base.served_names import OwnHosts, certificate_names, host_name
from merkatd.web.base.stored_answers import StoredAnswers
from merkatd.web.browser_sessions import BrowserSessions
from merkatd.web.layout.page_frame import wrong_page
from merkatd.web.settings import WebSettings
from merkatd.web.site import WebSite

LIVE_HEADER = b"x-merkat-live"
_FORM = "application/x-www-form-urlencoded"
_log = Logger()


class BrowserCall(HttpCall):
    """A request from a browser."""

    channel: "Visitor"

    def process(self) -> None:
        """Answer the request; Twisted calls this when it is complete."""
        if self._answered:
            return
        refused = self._refused()
        if refused is not None:
            self.send(refused)
            return
        self._running = ensureDeferred(self._visit())
        self._running.addErrback(self._failed)

    def _refused(self) -> PageResponse | None:
        """Return the answer to an invalid request, None for a valid one."""
        most = min(self.channel.factory.body_bytes, MOST_LONG_BYTES)
        if self.size > most:
            text = f"A form must have at most {most} bytes (got {self.size})."
            return wrong_page(text, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        headers = self.requestHeaders.getRawHeaders(b"host") or []
        host = host_name(headers[0].decode("latin-1")) if len(headers) == 1 else None
        if host is None:
            return wrong_page(
                "A request must have exactly one valid Host header.", HTTPStatus.BAD_REQUEST
            )
        if not self.channel.factory.hosts.include(host, self.channel.transport.getHost().host):
            text = f"{host[:60]!r} is not a name of this page; web.hosts can add it."
            return wrong_page(text, HTTPStatus.MISDIRECTED_REQUEST)
        kind = self._header(b"content-type").partition(";")[0].strip().lower()
        if self.method == b"POST" and kind != _FORM:
            return wrong_page(f"A form must be sent as {_FORM}.", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        return None

    def late(self) -> None:
        """Answer a request that takes too long; live updates have no time limit."""
        if self._answered:
            return
        text = "The daemon did not answer in time. Check whether an order was carried out."
        self.send(wrong_page(text, HTTPStatus.GATEWAY_TIMEOUT))
        if self._running is not None:
            self._running.cancel()

    async def _visit(self) -> None:
        site = self.channel.factory.answer
        answer = await site(self._asked())
        if isinstance(answer, LiveResponse):
            self._listen(answer)
        else:
            self.send(answer)

    def _failed(self, failure: Any) -> None:
        if failure.check(CancelledError) is None:
            # The query and the form can contain a password, so they are not logged.
            path = printable(self.uri.partition(b"?")[0].decode("latin-1"))
            method = printable(self.method.decode("latin-1"))
            _log.failure("{method} {path} failed", failure, method=method, path=path)
        text = "The daemon failed to answer; its log has the reason."
        self.send(wrong_page(text, HTTPStatus.INTERNAL_SERVER_ERROR))

    def _asked(self) -> BrowserRequest:
        path, _, query = self.uri.partition(b"?")
        return BrowserRequest(
            method=self.method.decode("latin-1"),
            path=decoded(path),
            query=Form(query),
            form=Form(self.content.getvalue() if self.method == b"POST" else b""),
            size=self.size,
            cookie=self._cookie(),
            by_hand=self.getHeader(LIVE_HEADER) is None,
            own=self._own(),
            address=self.caller(),
        )

    def _cookie(self) -> str:
        return cookie_of(self._header(b"cookie"), self.channel.factory.cookie)

    def _own(self) -> bool:
        """Return whether the browser confirms that a page of this site, or a person, sent this.

        Every browser sends `Origin` with a form. It also sends `Sec-Fetch-Site` if the page was
        loaded over TLS or from this machine. A form without either can come from any site.
        """
        fetched = self._header(b"sec-fetch-site")
        if fetched:
            return fetched in {"same-origin", "none"}
        origin = self._header(b"origin")
        return bool(origin) and origin.partition("://")[2] == self._header(b"host")

    def _header(self, name: bytes) -> str:
        header = self.getHeader(name)
        return header.decode("latin-1") if isinstance(header, bytes) else (header or "")

    def send(self, answer: PageResponse) -> None:
        """Write the whole response, and end the request."""
        if self._answered:
            return
        self._answered = True
        self.startedWriting = 1
        self.channel.transport.write(self._response(answer, last=not self.channel.persistent))
        self.finish()

    def turned_away(self) -> bytes:
        """Return the response for an address that has too many requests in progress."""
        page = wrong_page(MANY_AT_ONCE, HTTPStatus.TOO_MANY_REQUESTS)
        return self._response(page, last=True)

    def _response(self, answer: PageResponse, *, last: bool) -> bytes:
        body = answer.body
        cached = "private, max-age=3600" if answer.cacheable else "no-store"
        head = self._head(
            answer.status,
            [
                ("Content-Type", answer.kind),
                ("Content-Length", str(len(body))),
                ("Cache-Control", cached),
                *answer.headers,
                *((("Connection", "close"),) if last else ()),
            ],
        )
        return head if self.method == b"HEAD" else head + body

    def _listen(self, live: LiveResponse) -> None:
        """Keep the connection open for live updates."""
        self._answered = True
        self.startedWriting = 1
        self.channel.persistent = 0
        kind = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")]
        head = self._head(200, [*kind, ("Connection", "close")])
        self.channel.transport.write(head)
        channel = self.channel
        listener = Listener(channel.transport.write, channel.abort_after_writing, channel.abort)
        self.channel.listener = listener
        live.begin(listener)

    def _head(self, status: int, fields: Sequence[tuple[str, str]]) -> bytes:
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        more = self.channel.factory.headers
        lines += [f"{name}: {value}" for name, value in (*fields, *HEADERS, *more)]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


class Visitor(Channel):
    """A browser's connection."""

    factory: "VisitFactory"

    def __init__(self, factory: Any, address: str, seconds: Any) -> None:
        super().__init__(factory, address, seconds)
        self.requestFactory: Any = BrowserCall
        self.listener: Listener | None = None

    def pauseProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Mark the listener as slow: the browser has not read what was written."""
        if self.listener is not None:
            self.listener.slow = True
        super().pauseProducing()  # type: ignore[no-untyped-call]  # Twisted's web has no types

    def resumeProducing(self) -> None:  # noqa: N802 - Twisted's name
        """Mark the listener as fast: the browser has read what was written."""
        if self.listener is not None:
            self.listener.slow = False
        super().resumeProducing()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802 - Twisted's name
        """Remove the listener of a lost connection."""
        if self.listener is not None:
            self.listener.gone()
        super().connectionLost(reason)


def cookie_of(header: str, name: str) -> str:
    """Return the value of a cookie, "" if it is missing.

    This site's cookie has only letters and digits. The parser of Python's library is not used: its
    time grows with the square of the number of backslashes in a stranger's header.
    """
    pairs = (cookie.strip().partition("=") for cookie in header.split(";"))
    return next((value for pair, _, value in pairs if pair == name), "")


_A_YEAR_S = 31_536_000


class VisitFactory(CallFactory):
    """Creates a connection for each browser, with the limits of the tenants' interface."""

    speaks = Visitor

    def __init__(
        self,
        reactor: Any,
        bounds: CallSettings,
        site: WebSite,
        cookie: str,
        hosts: OwnHosts,
        proxies: TrustedProxies,
        known: KnownAddresses | None = None,
        *,
        secure: bool,
    ) -> None:
        super().__init__(reactor, bounds, site.visit, proxies, known)
        self.cookie = cookie
        self.hosts = hosts
        transport = ("Strict-Transport-Security", f"max-age={_A_YEAR_S}")
        self.headers = (transport,) if secure else ()


class WebPage:
    """The open web page."""

    def __init__(
        self, door: ListeningPort, listeners: Listeners, goals: Goals, named: Callable[[], None]
    ) -> None:
        """`named` reads the host names from the certificate."""
        self._door = door
        self._named = named
        self._listeners = listeners
        self.goals = goals
        self.address = door.address

    def renew(self) -> None:
        """Read the certificate again, if there is one. Raise CertificateError if it is invalid."""
        self._door.renew()
        self._named()

    async def close(self) -> None:
        """End all live updates, and close the port."""
        self._listeners.close()
        await self._door.close()


def serve(
    reactor: Any,
    settings: WebSettings,
    bounds: CallSettings,
    dispatch: Dispatch,
    scheduler: Scheduler,
) -> WebPage:
    """Open the port of the web page. Raise NotServedError if that fails."""
    secure = bool(settings.certificate)
    cookie = "__Host-merkat" if secure else "merkat"
    listeners = Listeners(
        reactor, most=settings.listeners, most_per_user=settings.listeners_per_user
    )
    sessions = BrowserSessions(
        reactor.seconds,
        longest_s=settings.session_s,
        idle_s=settings.session_idle_s,
        most_per_user=settings.sessions_per_user,
    )
    recall = StoredAnswers(reactor, dispatch.house.world.now)
    site = WebSite(dispatch, sessions, listeners, recall=recall, cookie=cookie, secure=secure)
    hosts = OwnHosts([settings.address, *(settings.hosts or ())])
    proxies = TrustedProxies(settings.trusted_proxies or ())
    known = dispatch.admission.known
    factory = VisitFactory(reactor, bounds, site, cookie, hosts, proxies, known, secure=secure)
    door = opened(reactor, settings, factory, "web")

    def named() -> None:
        hosts.also(certificate_names(settings.certificate))

    named()
    house = dispatch.house
    keeping = PeriodRecorder(site.past, house, site.goals, listeners.announced)
    scheduler.listen(keeping.announced)
    return WebPage(door, listeners, site.goals, named)
