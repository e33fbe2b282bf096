"""`run`: the daemon in the foreground, with systemd and its log.

A message is a datagram to the socket that the environment names; where it names none, as in a
terminal, nothing is told. That it lives is told by the reactor, between other things: one that
is stuck falls silent, and systemd starts the daemon again.
"""

import argparse
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import LoopingCall
from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)
from twisted.python.failure import Failure

from merkatd.api.control.control_client import ControlError
from merkatd.base.clock import DaemonThreads, asyncio_reactor
from merkatd.commands.ask_daemon import INSTALLED, add_config, loaded, read_config
from merkatd.commands.terminal.command_parser import CONFIGURATION, complain
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.log_throttle import Sparing
from merkatd.config.configuration import Config
from merkatd.config.errors import ConfigError, Problem
from merkatd.daemon.assembly import RunningDaemon, StartError, start
from merkatd.daemon.open_files import raise_limit
from merkatd.daemon.reload import Reloading
from merkatd.daemon.safe_files import close_to_others, keep_private
from merkatd.daemon.shutdown import ended
from merkatd.database.database import UnavailableError
from merkatd.database.migrations import SchemaError

_MICROSECONDS = 1_000_000


class SystemdNotifier:
    """Whoever started us and waits for word."""

    def __init__(self, environment: Mapping[str, str], clock: Any) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._every_s = _watchdog_s(environment) / 2
        self._living = LoopingCall(self._tell, "WATCHDOG=1")
        self._living.clock = clock

    def ready(self, status: str) -> None:
        """The first period has begun; from now on it is told in time that we live."""
        self._tell(f"READY=1\nSTATUS={status}")
        if self._every_s > 0 and not self._living.running:
            self._living.start(self._every_s)

    def reloading(self) -> None:
        """The configuration is being read anew; `ready` says when that is over."""
        at_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={at_us}\nSTATUS=Reading the configuration anew")

    def ending(self) -> None:
        """The work in hand is being finished."""
        self._tell("STOPPING=1\nSTATUS=Ending after the work in hand")

    def stop(self) -> None:
        """Nothing more is told."""
        if self._living.running:
            self._living.stop()

    def _tell(self, message: str) -> None:
        if not self._address:
            return
        # An address that begins with @ is Linux's abstract one, whose first byte is zero.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.setblocking(False)
            try:
                way.sendto(message.encode(), address)
            except OSError:
                return  # whoever no longer listens has no use for it


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """After how long without a word we count as stuck; 0 where nobody watches this process."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    said = environment.get("WATCHDOG_USEC", "")
    return int(said) / _MICROSECONDS if said.isascii() and said.isdigit() else 0.0


class Written:
    """The log. Raises OSError where the file can't be opened."""

    def __init__(self, config: Config) -> None:
        self._path = config.log_file
        self._stream = sys.stderr if self._path is None else _opened(self._path)
        self._predicate: Any = LogLevelFilterPredicate(defaultLogLevel=_level(config))

    def begin(self) -> None:
        """Write all events from now on."""
        file: Any = textFileLogObserver(self)  # type: ignore[arg-type]  # Twisted's interfaces
        sparing: Any = Sparing(file)  # have no types
        observer: Any = FilteringLogObserver(sparing, [self._predicate])
        globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)

    def again(self, config: Config) -> None:
        """Write the events of this level on; the file may have been moved away.

        Raises OSError where the file can't be opened; then they go where they went before.
        """
        self._predicate.defaultLogLevel = _level(config)
        if self._path is not None:
            new, old = _opened(self._path), self._stream
            self._stream = new
            with contextlib.suppress(OSError):  # a full disk: what it still held is lost
                old.close()

    def write(self, text: str) -> None:
        """Write what Twisted made of an event."""
        self._stream.write(text)

    def flush(self) -> None:
        """Nothing waits."""
        self._stream.flush()


def _opened(path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", encoding="utf-8", buffering=1)


def _level(config: Config) -> LogLevel:
    level: LogLevel = LogLevel.levelWithName(str(config.daemon.log_level))
    return level


_STATUS = "Sharing the cloud; `merkatd status` tells more"
_THREADS = 10
_EXPECTED = (StartError, ControlError, SchemaError, UnavailableError, OSError)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    parser.add_argument(
        "--paused",
        action="store_true",
        help="begin no period before `merkatd resume`: for a look with `merkatd plan` first",
    )
    add_config(parser)


def run_daemon(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; the work in hand is finished first.

    At SIGHUP the configuration is read anew; one with mistakes leaves the old one in force. At
    the start it has an exit code of its own, after which systemd does not try again.
    """
    keep_private()
    config = read_config("run", arguments.config)
    if config is None:
        return CONFIGURATION
    close_to_others(config.state_directory)
    raise_limit()
    reactor = asyncio_reactor()
    _use_daemon_threads(reactor)
    try:
        written = Written(config)
    except OSError as error:
        return complain("run", f"{config.log_file}: {error.strerror}")
    written.begin()
    file = arguments.config or (INSTALLED if INSTALLED.exists() else None)
    running = _Running(reactor, written, file)
    reactor.callWhenRunning(running.begin, config, arguments.paused)
    reactor.addSystemEventTrigger("before", "shutdown", running.end)
    reactor.run()
    return running.code


def _use_daemon_threads(reactor: Any) -> None:
    """Look names up on threads that don't keep the process alive when the name server hangs."""
    threads = reactor.threadpool = DaemonThreads(_THREADS, "reactor")
    reactor.callWhenRunning(threads.start)
    reactor.addSystemEventTrigger("during", "shutdown", threads.stop)


class _Running:
    """The daemon inside the reactor's life."""

    def __init__(self, reactor: Any, written: Written, file: Path | None) -> None:
        self._reactor = reactor
        self._written = written
        self._file = file
        self._reload_wanted = False
        self._supervisor = SystemdNotifier(os.environ, reactor)
        self._starting: Deferred[None] | None = None
        self._daemon: RunningDaemon | None = None
        self._grace_s = 0.0
        self._stopping = False
        self.code = 0

    def begin(self, config: Config, paused: bool) -> None:
        """Start it; where that fails, end with the reason."""
        # The reactor's own handlers complain of being told twice, as `timeout` and many a
        # supervisor tell.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._reactor.callFromThread(self._stop))
        signal.signal(signal.SIGHUP, lambda *_: self._reactor.callFromThread(self._reload))
        self._grace_s = config.period.grace_s
        self._starting = ensureDeferred(start(self._reactor, config, paused=paused)).addCallbacks(
            self._started, self._failed
        )

    def _started(self, daemon: RunningDaemon) -> None:
        self._daemon = daemon
        self._supervisor.ready(_STATUS)
        if self._reload_wanted:
            self._reload()

    def _reload(self) -> None:
        """Read the configuration anew; while it starts, once it has."""
        if self._daemon is None:
            self._reload_wanted = True
            return
        self._supervisor.reloading()
        configuration = self._daemon.configuration
        try:
            configuration.take(loaded(self._file))
        except ConfigError as error:
            configuration.refuse(error)
        except (OSError, ValueError) as error:
            problem = Problem((), str(getattr(error, "strerror", None) or error))
            configuration.refuse(ConfigError(str(self._file), [problem]))
        else:
            self._write_on(configuration)
        self._supervisor.ready(self._daemon.scheduler.configuration or _STATUS)

    def _write_on(self, configuration: Reloading) -> None:
        try:
            self._written.again(configuration.config)
        except OSError as error:
            configuration.lacks(f"the log goes on in its old file: {error.strerror}")

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, CancelledError) and self._stopping:
            sys.stderr.write("merkatd run: the daemon was told to end before it had started\n")
        elif isinstance(error, _EXPECTED):
            sys.stderr.write(f"merkatd run: {error}\n")
        else:
            sys.stderr.write(f"merkatd run: {failure.getTraceback()}\n")
        self.code = 1
        self._stop()

    def _stop(self) -> None:
        """A reactor can be stopped once only."""
        if not self._stopping:
            self._stopping = True
            self._supervisor.ending()
            self._reactor.stop()

    async def _end(self) -> None:
        if self._starting is not None:
            await ended(self._reactor, "the start", self._starting, self._grace_s)
        if self._daemon is not None:
            await self._daemon.stop()
        self._supervisor.stop()

    def end(self) -> Any:
        """The reactor waits for what this returns; what is half started is started first."""
        return ensureDeferred(self._end())


RUN = Verb(
    "run",
    summary="run the daemon",
    description="""\
`merkatd run`: the daemon, in the foreground, until it is told to end.""",
    add_arguments=add_run_arguments,
    run=run_daemon,
)
