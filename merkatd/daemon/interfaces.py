"""The daemon's network interfaces: the tenants' calls, the web page, the metrics."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import metadata
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.api.http.http_server import ListeningPort, NotServedError
from merkatd.api.http.settings import ApiSettings
from merkatd.api.metrics.call_metrics import CallStatistics
from merkatd.api.metrics.metric_registry import MetricRegistry
from merkatd.api.metrics.metrics_server import Health, PortError, health
from merkatd.api.metrics.metrics_server import listen as listen_for_scrapes
from merkatd.api.metrics.notice_metrics import NoticeMetrics
from merkatd.api.metrics.period_metrics import Balances, FairnessMetrics
from merkatd.api.metrics.reactor_metrics import ReactorHolds
from merkatd.api.xmlrpc.dispatch import Dispatch
from merkatd.api.xmlrpc.dispatch import serve as serve_tenants
from merkatd.base.clock import Inline
from merkatd.config.configuration import Config
from merkatd.daemon.backends import transport_to_cloud
from merkatd.daemon.errors import StartError
from merkatd.daemon.open_files import files, within
from merkatd.daemon.shutdown import OpenParts
from merkatd.database.scheduler.order_store import Mode
from merkatd.fleets.vm_template_text import Ask
from merkatd.groups.group_keeper import Keeper
from merkatd.platforms.manager import Manager
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.identity import SignIns
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.services import DaemonServices, services_of
from merkatd.web.web_server import WebPage
from merkatd.web.web_server import serve as serve_page

_log = Logger()

_LOGIN_BYTES = 1 << 20
"""The largest answer to a login: larger than any user or VM record."""


def open_metrics(
    reactor: Any,
    config: Config,
    scheduler: Scheduler,
    loads: Mapping[str, CallStatistics],
    tasks_ended: Callable[[], int],
    holds: ReactorHolds,
) -> Callable[[], Any]:
    """Collect metrics, and open the port where Prometheus reads them; return its close function.

    Raise StartError if the port can't be opened.
    """
    world = scheduler.world
    figures = MetricRegistry(
        metadata.version("merkat"), loads, interval_s=lambda: scheduler.world.rhythm.interval_s
    )
    scheduler.listen(figures.announced)
    scheduler.listen(Balances(world.database, figures.balances, figures.quarantined).announced)
    scheduler.listen(FairnessMetrics(world.executor, figures.fair).announced)
    figures.states(
        {
            "paused": lambda: scheduler.paused,
            "standby": lambda: scheduler.standby is not None,
            "acting": lambda: (
                not scheduler.paused and scheduler.standby is None and not scheduler.mode.watches
            ),
            **{
                str(mode): partial(_is_mode, scheduler, mode)
                for mode in Mode
                if mode is not Mode.ON
            },
        }
    )
    scheduler.count(figures.ended)
    figures.bus(tasks_ended)
    figures.also(NoticeMetrics(scheduler))
    figures.also(holds)
    chosen = config.metrics

    def well() -> Health:
        return health(
            scheduler.failures, scheduler.standby, paused=scheduler.paused, mode=scheduler.mode
        )

    try:
        port = listen_for_scrapes(reactor, chosen.address, chosen.port, figures, well)
    except PortError as error:
        raise StartError(str(error)) from None
    where = port.getHost()
    _log.info(
        "Metrics are served at http://{host}:{port}/metrics", host=where.host, port=where.port
    )
    stop: Callable[[], Any] = port.stopListening
    return stop


def _is_mode(scheduler: Scheduler, mode: Mode) -> bool:
    return scheduler.mode is mode


def services_of_daemon(
    reactor: Any,
    config: Config,
    scheduler: Scheduler,
    manager: Manager,
    keeper: Keeper,
    ask: Ask,
    closing: OpenParts,
) -> DaemonServices:
    """Return the daemon's services; `ask` calls OpenNebula with the daemon's login."""
    # Sign-ins have connections of their own, so that many sign-ins don't delay the period's calls.
    transport = transport_to_cloud(reactor, config, Inline(), body_bytes=_LOGIN_BYTES)
    closing.add("the connections for sign-ins", lambda: ensureDeferred(transport.close()))
    settings = config.api_settings
    sign_ins = SignIns(
        transport, reactor, kept_s=settings.login_s, refusal_kept_s=settings.refusal_s
    )
    orders = OrderCounts(reactor, settings.user_orders)
    version = metadata.version("merkat")
    return services_of(scheduler, sign_ins, orders, ask, version, manager, keeper)


def open_interfaces(
    reactor: Any,
    config: Config,
    scheduler: Scheduler,
    services: DaemonServices,
    closing: OpenParts,
) -> tuple[WebPage | None, Mapping[str, Callable[[], None]]]:
    """Open the configured interfaces; return the page, and by section a renewal of its certificate.

    Raise StartError if an interface can't be opened.
    """
    if not config.api.enabled:
        return None, {}
    dispatch, door = _open_to_tenants(reactor, config, services, closing)
    if not config.web.enabled:
        return None, {"api": door.renew}
    page = _open_to_browsers(reactor, config, scheduler, dispatch, closing)
    return page, {"api": door.renew, "web": page.renew}


def _open_to_tenants(
    reactor: Any, config: Config, services: DaemonServices, closing: OpenParts
) -> tuple[Dispatch, ListeningPort]:
    """Open the tenants' interface and write its address to a file; return its parts."""
    settings = _bounds(config)
    dispatch = Dispatch(services, settings, reactor)
    try:
        door = serve_tenants(reactor, settings, dispatch)
    except NotServedError as error:
        raise StartError(str(error)) from None
    closing.add("the tenants' interface", lambda: ensureDeferred(door.close()))
    (config.state_directory / "merkat_xmlrpc").write_text(f"{door.endpoint}\n")
    _log.info("The tenants' interface listens at {endpoint}", endpoint=door.endpoint)
    return dispatch, door


def _bounds(config: Config) -> ApiSettings:
    """Return the limits of each interface."""
    return within(config.api_settings, 2 if config.web.enabled else 1, files())


def _open_to_browsers(
    reactor: Any,
    config: Config,
    scheduler: Scheduler,
    dispatch: Dispatch,
    closing: OpenParts,
) -> WebPage:
    """Open the web page, which uses the tenants' dispatch, and write its address to a file."""
    try:
        page = serve_page(reactor, config.web_settings, _bounds(config), dispatch, scheduler)
    except NotServedError as error:
        raise StartError(str(error)) from None
    closing.add("the web page", lambda: ensureDeferred(page.close()))
    (config.state_directory / "merkat_web").write_text(f"{page.address}\n")
    _log.info("The web page listens at {address}", address=page.address)
    return page
