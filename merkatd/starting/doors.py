"""Where others come in: tenants with their calls, and whoever reads the figures."""

from collections.abc import Callable
from importlib import metadata
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.api.metrics.balances import Balances
from merkatd.api.metrics.calls import Calls
from merkatd.api.metrics.figures import Figures
from merkatd.api.metrics.health import Health, health
from merkatd.api.metrics.server import PortError
from merkatd.api.metrics.server import listen as listen_for_scrapes
from merkatd.api.questions import DaemonQuestions
from merkatd.api.questions.groups import GroupQuestions
from merkatd.api.xmlrpc.identity import Logins
from merkatd.api.xmlrpc.server import NotServedError
from merkatd.api.xmlrpc.server import serve as serve_tenants
from merkatd.api.xmlrpc.table import House
from merkatd.config.model import Config
from merkatd.database.executors import Inline
from merkatd.ledger import Ledger
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.world import World
from merkatd.starting.cloud import transport_to_cloud
from merkatd.starting.errors import StartError

_log = Logger()

_LOGIN_BYTES = 1 << 20
"""More than any user's or VM's own page."""


def open_to_scrapes(
    reactor: Any, config: Config, scheduler: Scheduler, calls: Calls
) -> Callable[[], Any]:
    """Count what happens, and open the port where the figures are read; what closes it."""
    figures = Figures(metadata.version("merkat"), calls)
    scheduler.listen(figures.announced)
    scheduler.listen(Balances(scheduler.world.database, figures.balances).announced)
    scheduler.count(figures.ended)
    chosen = config.metrics

    def well() -> Health:
        return health(scheduler.failures, scheduler.standby, paused=scheduler.paused)

    try:
        port = listen_for_scrapes(reactor, chosen.address, chosen.port, figures, well)
    except PortError as error:
        raise StartError(str(error)) from None
    where = port.getHost()
    _log.info("Figures are read at http://{host}:{port}/metrics", host=where.host, port=where.port)
    stop: Callable[[], Any] = port.stopListening
    return stop


def open_to_tenants(
    reactor: Any,
    config: Config,
    world: World,
    questions: DaemonQuestions,
    groups: GroupQuestions,
    closing: list[Callable[[], Any]],
) -> None:
    """Open the tenants' interface, and leave word where it is."""
    # Connections of its own: however many tenants log in, the period's calls don't wait.
    transport = transport_to_cloud(reactor, config, Inline(), body_bytes=_LOGIN_BYTES)
    closing.append(lambda: ensureDeferred(transport.close()))
    settings = config.api_settings
    house = House(
        questions=questions,
        preparing=questions.preparing,
        world=world,
        ledger=Ledger(world.database, world.now, config.money),
        logins=Logins(
            transport, reactor, kept_s=settings.login_s, refusal_kept_s=settings.refusal_s
        ),
        version=metadata.version("merkat"),
        groups=groups,
    )
    try:
        door = serve_tenants(reactor, settings, house)
    except NotServedError as error:
        raise StartError(str(error)) from None
    closing.append(lambda: ensureDeferred(door.close()))
    (config.state_directory / "merkat_xmlrpc").write_text(f"{door.endpoint}\n")
    _log.info("Tenants are answered at {endpoint}", endpoint=door.endpoint)
