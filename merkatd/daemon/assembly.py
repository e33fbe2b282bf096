"""The assembly of the daemon: only this module joins all concrete classes."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.api.control.control_questions import DaemonQuestions
from merkatd.api.control.control_server import listen
from merkatd.api.metrics.call_metrics import Calls, CallStatistics
from merkatd.api.metrics.reactor_metrics import ReactorHolds
from merkatd.base.clock import Threads
from merkatd.bus.platform_processes import PlatformProcesses
from merkatd.config.configuration import Config
from merkatd.config.process_sections import CloudMode
from merkatd.daemon.backends import client_of, hypervisors_of, power_of
from merkatd.daemon.errors import StartError
from merkatd.daemon.interfaces import open_interfaces, open_metrics, services_of_daemon
from merkatd.daemon.interpreter import GarbageCollections, shorten_switch_interval
from merkatd.daemon.reload import ConfigurationReload, RunningParts, rules_of
from merkatd.daemon.safe_files import keys_of
from merkatd.daemon.shutdown import OpenParts, wait_for_end
from merkatd.daemon.single_instance import (
    certainly_leads,
    check_of_other_daemons,
    ensure_leading,
    lock_state_directory,
    make_leadership,
)
from merkatd.daemon.strategy_needs import refuse_unfilled_needs
from merkatd.database import Database, decision_basis
from merkatd.embedded.cloud_file import ClockMaker
from merkatd.embedded.model.event_clock import ScaledClock
from merkatd.groups.group_keeper import Keeper
from merkatd.groups.group_orders import end_of_removed as groups_of_removed
from merkatd.opennebula import OpenNebulaCloud
from merkatd.opennebula.current_state import HostChecks, start_again
from merkatd.opennebula.driver.driver_answer import DriverAnswers
from merkatd.opennebula.driver.driver_socket import serve as serve_driver
from merkatd.opennebula.hook_events import Events
from merkatd.opennebula.pools.removed_user_check import missing_users
from merkatd.placement import strategy_named
from merkatd.placement.registry import warm_up
from merkatd.platforms.declared_applications import DeclaredApplications
from merkatd.platforms.job_recorder import JobRecorder
from merkatd.platforms.manager import Manager
from merkatd.platforms.strategy_wishes import scale_platforms
from merkatd.platforms.tenant_orders import end_of_removed as platforms_of_removed
from merkatd.scheduler.context import PeriodContext, all_proposals
from merkatd.scheduler.leadership import Leadership
from merkatd.scheduler.period import Scheduler
from merkatd.service.room_recorder import RoomRecorder
from merkatd.web.web_server import WebPage

__all__ = ["RunningDaemon", "StartError", "start"]

_log = Logger()

_WORKERS = 2
"""Threads that parse pools and decide: two, so that parsing and deciding can overlap."""


@dataclass
class RunningDaemon:
    """The running parts of the daemon; `stop` closes them in the reverse order of their start."""

    scheduler: Scheduler
    configuration: ConfigurationReload
    clock: Any
    page: WebPage | None
    """The web page, None if it is disabled."""
    _closing: OpenParts

    async def stop(self) -> None:
        """Finish the present period, then close every part; each has a time limit."""
        _log.info("The daemon is stopping; it finishes the present period first")
        grace_s = self.configuration.config.period.grace_s
        # The next start finds unfinished work in the journal.
        working = ensureDeferred(self.scheduler.stop())
        await wait_for_end(self.clock, "the present period", working, grace_s)
        await self._closing.close()


async def start(
    reactor: Any, config: Config, *, paused: bool = False, make_clock: ClockMaker = ScaledClock
) -> RunningDaemon:
    """Build the daemon and start its first period; on failure, close all parts.

    With `paused` the daemon starts no period until the administrator orders it to resume.
    `make_clock` makes the clock of an embedded cloud.
    """
    closing = OpenParts(reactor)
    try:
        daemon = await _built(reactor, config, closing, make_clock)
        closing.add("the switch interval", shorten_switch_interval())
        garbage = GarbageCollections()
        garbage.start()
        closing.add("the garbage collection", garbage.stop)
        daemon.scheduler.listen(garbage.after_period)
        if paused:
            daemon.scheduler.hold()
    except BaseException:
        await closing.close()
        raise
    daemon.scheduler.start()
    return daemon


async def _built(
    reactor: Any, config: Config, closing: OpenParts, make_clock: ClockMaker
) -> RunningDaemon:
    config.state_directory.mkdir(parents=True, exist_ok=True)
    closing.add("the state directory's lock", lock_state_directory(config.state_directory))
    workers = Threads(reactor, _WORKERS, name="workers")
    closing.add("the worker threads", workers.stop)
    leaders: list[Leadership] = []
    calls = Calls()
    ours = partial(ensure_leading, leaders)
    client, clock, now = client_of(reactor, config, workers, closing, ours, calls, make_clock)
    rng = np.random.default_rng()
    database = await Database.open(
        config.database_url,
        reactor,
        rng,
        config.database.pool_size,
        before=check_of_other_daemons(reactor, config),
    )
    closing.add("the database", lambda: ensureDeferred(database.close()))
    loads: dict[str, CallStatistics] = {"opennebula": calls, "database": database}
    cloud = OpenNebulaCloud(
        client,
        clock,
        workers,
        now=now,
        power=power_of(reactor, config, client, closing),
    )
    world = PeriodContext(
        cloud=cloud,
        hypervisors=hypervisors_of(
            reactor, config, client, closing, loads, workers, partial(certainly_leads, leaders)
        ),
        database=database,
        first=database.first,
        clock=clock,
        executor=workers,
        rng=rng,
        seed=await database.read(decision_basis.seed),
        now=now,
        goods=config.goods,
        **rules_of(config),
        handing=config.cloud.mode is CloudMode.DRIVER,
        why_not_on=HostChecks(client, workers, now, cloud.hosts_seen).why_not,
        retry=partial(start_again, client),
        chores=cloud.run_scheduled,
        missing_users=partial(missing_users, client),
        endings=(platforms_of_removed, groups_of_removed),
    )
    await refuse_unfilled_needs(world)
    for market in world.markets:
        await workers.run(partial(warm_up, strategy_named(market.strategy)))
    leading = make_leadership(reactor, config, database, client)
    processes = PlatformProcesses(config.state_directory, reactor, rng, config.bus)
    handed = keys_of(config.state_directory).handed
    manager = Manager(world, processes, rng, leading, handed)
    keeper = Keeper(world, rng)
    proposals = all_proposals(manager.proposals, keeper.proposals)
    declared = DeclaredApplications(processes.readings)
    tables, scale = declared.tables, scale_platforms
    scheduler = Scheduler(
        replace(world, proposals=proposals, applications=tables, scale=scale), leading
    )
    for listener in (
        manager.send_news,
        declared.after_period,
        JobRecorder(declared, lambda: scheduler.world, leading).after_period,
        RoomRecorder(scheduler).announced,
    ):
        scheduler.listen(listener)
    closing.add("the controllers", lambda: ensureDeferred(manager.close()))
    services = services_of_daemon(reactor, config, scheduler, manager, keeper, client.call, closing)
    port: Any = listen(reactor, config.control_socket, DaemonQuestions(services))
    closing.add("the control socket", port.stopListening)
    page, renewals = open_interfaces(reactor, config, scheduler, services, closing)
    if config.metrics.enabled:
        holds = ReactorHolds(reactor)
        scrapes = open_metrics(reactor, config, scheduler, loads, processes.tasks_ended, holds)
        closing.add("the metrics", scrapes)
        closing.add("the reactor's beat", holds.stop)
        holds.start()
    if leading is not None:
        leaders.append(leading)
        closing.add("the lease", lambda: ensureDeferred(leading.stop()))
        driver = serve_driver(
            reactor, config.driver_socket, config.driver.group, DriverAnswers(scheduler).answer
        )
        closing.add("the driver's socket", driver.stopListening)
        leading.start()
    if config.cloud.events_endpoint:
        events = Events(config.cloud.events_endpoint, clock, scheduler.wake_after_event)
        closing.add("the events", events.stop)
    ledgers = (services.ledger,)
    going = RunningParts(scheduler, manager, keeper, ledgers, leading, renewals)
    return RunningDaemon(scheduler, ConfigurationReload(going, config), reactor, page, closing)
