"""The port of the page."""

from collections.abc import Callable
from typing import Any

from merkatd.api.xmlrpc.dispatch import Dispatch
from merkatd.api.xmlrpc.forwarded import Proxies
from merkatd.api.xmlrpc.known import KnownAddresses
from merkatd.api.xmlrpc.server import CallFactory, Door, opened
from merkatd.api.xmlrpc.settings import Settings as CallSettings
from merkatd.scheduler.period import Scheduler
from merkatd.web.channel import Visitor
from merkatd.web.goals import Goals
from merkatd.web.hosts import OwnHosts, certificate_names
from merkatd.web.keeping import Keeping
from merkatd.web.listening import Listeners
from merkatd.web.recall import Recall
from merkatd.web.sessions import Sessions
from merkatd.web.settings import Settings
from merkatd.web.site import Site

_A_YEAR_S = 31_536_000


class VisitFactory(CallFactory):
    """Makes a connection for each browser that comes, within the bounds of tenants' calls."""

    speaks = Visitor

    def __init__(
        self,
        reactor: Any,
        bounds: CallSettings,
        site: Site,
        cookie: str,
        hosts: OwnHosts,
        proxies: Proxies,
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
    """The page as it is served."""

    def __init__(
        self, door: Door, listeners: Listeners, goals: Goals, named: Callable[[], None]
    ) -> None:
        """`named` reads the names that the certificate gives."""
        self._door = door
        self._named = named
        self._listeners = listeners
        self.goals = goals
        self.address = door.address

    def renew(self) -> None:
        """Read the certificate anew, where there is one. Raises CertificateError."""
        self._door.renew()
        self._named()

    async def close(self) -> None:
        """End all that listens, and close the port."""
        self._listeners.close()
        await self._door.close()


def serve(
    reactor: Any,
    settings: Settings,
    bounds: CallSettings,
    dispatch: Dispatch,
    scheduler: Scheduler,
) -> WebPage:
    """Open the port. Raises NotServedError."""
    secure = bool(settings.certificate)
    cookie = "__Host-merkat" if secure else "merkat"
    listeners = Listeners(
        reactor, most=settings.listeners, most_per_user=settings.listeners_per_user
    )
    sessions = Sessions(
        reactor.seconds,
        longest_s=settings.session_s,
        idle_s=settings.session_idle_s,
        most_per_user=settings.sessions_per_user,
    )
    recall = Recall(reactor, dispatch.house.world.now)
    site = Site(dispatch, sessions, listeners, recall=recall, cookie=cookie, secure=secure)
    hosts = OwnHosts([settings.address, *(settings.hosts or ())])
    proxies = Proxies(settings.trusted_proxies or ())
    known = dispatch.admission.known
    factory = VisitFactory(reactor, bounds, site, cookie, hosts, proxies, known, secure=secure)
    door = opened(reactor, settings, factory, "web")

    def named() -> None:
        hosts.also(certificate_names(settings.certificate))

    named()
    house = dispatch.house
    keeping = Keeping(site.past, house.questions, site.goals, listeners.announced)
    scheduler.listen(keeping.announced)
    return WebPage(door, listeners, site.goals, named)
