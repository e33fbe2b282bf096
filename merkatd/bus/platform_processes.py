"""The processes of controllers and monitors, and the daemon's bus to them."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from merkatd.base.backoff import Backoff
from merkatd.bus.hub import Hub
from merkatd.bus.settings import BusSettings
from merkatd.bus.socket_paths import endpoint_in
from merkatd.platforms.lifecycle.platform_template import NO_CONTROLLER
from merkatd.platforms.processes.process_files import last_log_line
from merkatd.platforms.processes.program import ProcessLimits, Program
from merkatd.platforms.processes.supervisor import Supervisor, UnexpectedEnd
from merkatd.protocol.controller_kinds import CONTROLLER, CONTROLLERS, MONITORS, SSH, known_kinds
from merkatd.protocol.curve_keys import daemon_keys
from merkatd.protocol.platform_messages import (
    ActionReceiver,
    Assignment,
    Kinds,
    MarketNow,
    MonitorReading,
    PlatformStatus,
)


def sweep(folder: Path, kept: AbstractSet[int]) -> int:
    """Remove the folders of all platforms except `kept`; return how many were removed.

    Entries that are not named like a platform's folder are left alone.
    """
    if not folder.is_dir():
        return 0
    gone = [
        path
        for path in folder.iterdir()
        if path.name.isascii() and path.name.isdigit() and int(path.name) not in kept
    ]
    for path in gone:
        shutil.rmtree(path, ignore_errors=True)
    return len(gone)


_log = Logger()
_MONITOR = "monitor-"
_HANDED = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV")
"""Variables that processes inherit from the daemon's environment; the others stay private."""
_GRACE_S = 2.0
_MODULE = "controllers"


class PlatformProcesses:
    """The implementation of `Controllers` with one operating system process each.

    It is created on the event loop, and closed when the daemon ends.
    """

    def __init__(
        self, home: Path, clock: Any, rng: np.random.Generator, settings: BusSettings
    ) -> None:
        self._home = home
        self._folder = home / settings.controllers.expanduser()
        self._clock = clock
        self._settings = settings
        self._attendant: ActionReceiver | None = None
        self._hub: Hub | None = None
        self._programs: dict[int, Mapping[str, Program]] = {}
        backoff = Backoff(
            first_s=settings.restart_least_s,
            longest_s=settings.restart_most_s,
            retries=settings.restart_tries,
        )
        self._supervisor = Supervisor(home, clock, rng, backoff, self._ended, self._excused)
        self._look: Any = None

    @property
    def supervisor(self) -> Supervisor:
        """Return the supervisor of the processes."""
        return self._supervisor

    def tasks_ended(self) -> int:
        """Return how many of the bus's tasks have ended unexpectedly since the daemon's start."""
        return 0 if self._hub is None else self._hub.tasks.ended

    def attend(self, attendant: ActionReceiver) -> None:
        """Send all requests of controllers to this receiver."""
        self._attendant = attendant

    def kinds(self) -> Kinds:
        """Return the built-in kinds and those in the site's own folder."""
        settings = self._settings
        return Kinds(
            known_kinds(self._folder, CONTROLLERS),
            known_kinds(self._folder, MONITORS),
            addresses=(settings.ssh_address, *settings.ssh_allowed.split()),
            tenant_processes=min(
                settings.tenant_processes, settings.tenant_memory_mib // settings.memory_mib
            ),
        )

    async def start(self, assignment: Assignment) -> None:
        """Start the platform's controller and monitors, unless they run already."""
        if assignment.platform in self._programs:
            return
        monitored = {
            f"{_MONITOR}{row}": cluster.monitor.kind
            for row, cluster in enumerate(assignment.clusters)
            if cluster.monitor is not None
        }
        kinds = monitored
        if assignment.controller != NO_CONTROLLER:
            kinds = {CONTROLLER: assignment.controller} | monitored
        self._opened.admit(assignment, frozenset(kinds))
        programs = {
            _name(assignment.platform, role): self._program(assignment.platform, role, kind)
            for role, kind in kinds.items()
        }
        for name, program in programs.items():
            self._supervisor.start(name, program)
        # Last, so that the whole start is retried if any part of it fails.
        self._programs[assignment.platform] = programs

    async def stop(self, platform: int, grace_s: float) -> None:
        """Stop the platform's processes, by force once the grace time is over."""
        programs = self._programs.pop(platform, {})
        await self._supervisor.stop(list(programs), grace_s)
        # The platform may have been started again meanwhile.
        if self._hub is not None and platform not in self._programs:
            self._hub.dismiss(platform)

    def announce(self, markets: Sequence[MarketNow], standings: Sequence[PlatformStatus]) -> None:
        """Publish the results of the last period to all processes."""
        if self._hub is not None:
            self._hub.announce(markets, standings)

    def readings(self, platform: int) -> Mapping[str, MonitorReading]:
        """Return the newest measurements of the platform's monitors, by cluster."""
        return {} if self._hub is None else self._hub.readings(platform)

    def tidy(self, kept: AbstractSet[int]) -> int:
        """Remove the folders of all platforms except `kept` and those that run now."""
        return sweep(self._home / "platforms", kept | set(self._programs))

    async def close(self) -> None:
        """Stop all processes; the platforms go on at the next start."""
        self._programs.clear()
        self._supervisor.close()
        if self._hub is not None:
            self._look.cancel()
            self._hub.close()
            self._hub = None

    @property
    def _opened(self) -> Hub:
        """Return the bus; open it for the first platform, as only platforms need its sockets."""
        if self._hub is None:
            if self._attendant is None:
                raise RuntimeError("call `attend` before `start`: no receiver is set")
            keys = daemon_keys(self._home)
            endpoint = self._settings.endpoint or endpoint_in(self._home)
            self._hub = Hub(
                keys,
                self._attendant,
                self._clock.seconds,
                replace(self._settings, endpoint=endpoint),
                lambda platform, role: self._supervisor.heard(_name(platform, role)),
            )
            self._look = self._clock.callLater(self._settings.silence_s / 4, self._find_silent)
        return self._hub

    def _program(self, platform: int, role: str, kind: str) -> Program:
        settings = self._settings
        what = CONTROLLER if role == CONTROLLER else "monitor"
        return Program(
            arguments=(sys.executable, "-m", _MODULE, what, kind, str(self._folder)),
            environment={
                SSH: _ssh(settings),
                **{name: os.environ[name] for name in _HANDED if name in os.environ},
            },
            secret=self._opened.passport(platform, role).written(),
            log=str(self._log_of(platform, role)),
            log_bytes=int(settings.log_mib * 2**20),
            logs=settings.logs,
            bounds=ProcessLimits(
                memory_bytes=settings.memory_mib * 2**20,
                cpu_s=int(settings.cpu_s),
                files=settings.files,
            ),
            # Monitors are restarted without end: the application may answer again later.
            given_up=role == CONTROLLER,
        )

    def _log_of(self, platform: int, role: str) -> Path:
        return self._home / "platforms" / str(platform) / f"{role}.log"

    def _ended(self, ended: UnexpectedEnd) -> None:
        platform, role = _parts(ended.name)
        if self._attendant is None:
            return
        why = _with_log(ended.why, self._log_of(platform, role))
        if role == CONTROLLER:
            recording = self._attendant.ended(platform, why, final=ended.wait_s is None)
        else:
            recording = self._attendant.monitor_ended(
                platform, int(role.removeprefix(_MONITOR)), why
            )
        ensureDeferred(recording).addErrback(partial(self._not_recorded, ended))

    def _not_recorded(self, ended: UnexpectedEnd, failure: Any) -> None:
        """Log the failure; start a process again that was given up, as its platform goes on."""
        _log.failure("Could not record the end of process {name}", failure, name=ended.name)
        program = self._programs.get(_parts(ended.name)[0], {}).get(ended.name)
        if ended.wait_s is None and program is not None:
            self._supervisor.start(ended.name, program)

    def _excused(self, name: str) -> bool:
        """Return whether the daemon failed to carry out the latest request of the platform."""
        return self._hub is not None and self._hub.is_failing(_parts(name)[0])

    def _find_silent(self) -> None:
        """Restart processes that run but send nothing: they hang."""
        limit_s = self._settings.silence_s
        self._look = self._clock.callLater(limit_s / 4, self._find_silent)
        if self._hub is None:
            return
        now_s = self._clock.seconds()
        for name, since_s in self._supervisor.since.items():
            heard_s = self._hub.heard_s(*_parts(name))
            if now_s - max(since_s, heard_s or since_s) > limit_s:
                _log.warn(
                    "Process {name} has sent nothing for {limit_s:g} s; restarting it",
                    name=name,
                    limit_s=limit_s,
                )
                self._supervisor.again(name, _GRACE_S)


def _ssh(settings: BusSettings) -> str:
    """Return the SSH settings for the environment of monitors."""
    limits = {
        "pool": settings.ssh_pool,
        "connect_s": settings.ssh_connect_s,
        "command_s": settings.ssh_command_s,
    }
    return json.dumps(
        {
            "address": settings.ssh_address,
            "allowed": settings.ssh_allowed.split(),
            "user": settings.ssh_user,
            "port": settings.ssh_port,
            "limits": limits,
        }
    )


def _with_log(why: str, log: Path) -> str:
    """Return why a process ended, with its exception and the path of its log."""
    last_line = last_log_line(log) if why.startswith("ended with code") else ""
    return f"{why}{f': {last_line}' if last_line else ''} (log: {log})"


def _name(platform: int, role: str) -> str:
    return f"{platform}/{role}"


def _parts(name: str) -> tuple[int, str]:
    platform, _, role = name.partition("/")
    return int(platform), role
