"""The command `run`: the daemon in the foreground, its log, and its messages to systemd.

A message is a datagram to the socket that the environment names; without that variable, as in a
terminal, the daemon sends none. The reactor's thread sends the watchdog messages: if it is stuck
they stop, and systemd restarts the daemon.
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
from merkatd.commands.socket_door import INSTALLED, add_config, loaded, read_config
from merkatd.commands.terminal.command_parser import CONFIGURATION, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.log_throttle import LogThrottle
from merkatd.commands.words.ways_out import full_disk, os_reason
from merkatd.config.configuration import Config
from merkatd.config.errors import ConfigError, Problem
from merkatd.daemon.assembly import RunningDaemon, StartError, start
from merkatd.daemon.open_files import raise_limit
from merkatd.daemon.reload import ConfigurationReload
from merkatd.daemon.safe_files import make_new_files_private, remove_permissions_of_others
from merkatd.daemon.shutdown import wait_for_end
from merkatd.database.database import UnavailableError
from merkatd.database.migrations import SchemaError

_MICROSECONDS = 1_000_000


class SystemdNotifier:
    """Sender of the daemon's state to systemd."""

    def __init__(self, environment: Mapping[str, str], clock: Any) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._every_s = _watchdog_s(environment) / 2
        self._watchdog = LoopingCall(self._send, "WATCHDOG=1")
        self._watchdog.clock = clock

    def ready(self, status: str) -> None:
        """Announce that the daemon works, and start the watchdog messages."""
        self._send(f"READY=1\nSTATUS={status}")
        if self._every_s > 0 and not self._watchdog.running:
            self._watchdog.start(self._every_s)

    def reloading(self) -> None:
        """Announce a reload of the configuration; `ready` announces its end."""
        at_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={at_us}\nSTATUS=Reloading the configuration")

    def ending(self) -> None:
        """Announce that the daemon finishes its current work and stops."""
        self._send("STOPPING=1\nSTATUS=Stopping after the current work")

    def stop(self) -> None:
        """Stop the watchdog messages."""
        if self._watchdog.running:
            self._watchdog.stop()

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # An address that begins with @ is in Linux's abstract namespace: its first byte is zero.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as way:
            way.setblocking(False)
            try:
                way.sendto(message.encode(), address)
            except OSError:
                return  # systemd does not listen: the daemon works without it


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """Return the seconds after which systemd restarts a silent daemon; 0 without a watchdog."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    limit = environment.get("WATCHDOG_USEC", "")
    return int(limit) / _MICROSECONDS if limit.isascii() and limit.isdigit() else 0.0


class LogFile:
    """The daemon's log. The constructor raises OSError if the file can't be opened."""

    def __init__(self, config: Config) -> None:
        self._path = config.log_file
        self._stream = sys.stderr if self._path is None else _opened(self._path)
        self._predicate: Any = LogLevelFilterPredicate(defaultLogLevel=_level(config))

    def begin(self) -> None:
        """Start to write all events."""
        file: Any = textFileLogObserver(self)  # type: ignore[arg-type]  # Twisted has no types
        sparing: Any = LogThrottle(file)
        observer: Any = FilteringLogObserver(sparing, [self._predicate])
        globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)

    def again(self, config: Config) -> None:
        """Apply the log level and open the log file again: it may have been renamed.

        Raise OSError if the file can't be opened; the log then continues in the old file.
        """
        self._predicate.defaultLogLevel = _level(config)
        if self._path is not None:
            new, old = _opened(self._path), self._stream
            self._stream = new
            with contextlib.suppress(OSError):  # a full disk: buffered lines are lost
                old.close()

    def write(self, text: str) -> None:
        """Write an event, formatted by Twisted."""
        self._stream.write(text)

    def flush(self) -> None:
        """Flush the log."""
        self._stream.flush()


def _opened(path: Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", encoding="utf-8", buffering=1)


def _level(config: Config) -> LogLevel:
    level: LogLevel = LogLevel.levelWithName(str(config.daemon.log_level))
    return level


_STATUS = "Running; see `merkatd status`"
_THREADS = 10
_EXPECTED = (StartError, ControlError, SchemaError, UnavailableError)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `run`."""
    parser.add_argument(
        "--paused",
        action="store_true",
        help="start no period before `merkatd resume`, to check `merkatd plan` first",
    )
    add_config(parser)


def run_daemon(arguments: argparse.Namespace) -> int:
    """Run the daemon until SIGTERM or SIGINT; it finishes its current work first.

    SIGHUP reloads the configuration; the old one stays in force if the new one has mistakes. At the
    start, mistakes lead to an exit code of their own, after which systemd does not try again.
    """
    make_new_files_private()
    config = read_config("run", arguments.config)
    if config is None:
        return CONFIGURATION
    remove_permissions_of_others(config.state_directory)
    raise_limit()
    reactor = asyncio_reactor()
    _use_daemon_threads(reactor)
    try:
        written = LogFile(config)
    except OSError as error:
        return print_failure("run", os_reason(error, config.log_file))
    written.begin()
    file = arguments.config or (INSTALLED if INSTALLED.exists() else None)
    running = _Running(reactor, written, file)
    reactor.callWhenRunning(running.begin, config, arguments.paused)
    reactor.addSystemEventTrigger("before", "shutdown", running.end)
    reactor.run()
    return running.code


def _use_daemon_threads(reactor: Any) -> None:
    """Resolve names on threads that don't keep the process alive when the name server hangs."""
    threads = reactor.threadpool = DaemonThreads(_THREADS, "reactor")
    reactor.callWhenRunning(threads.start)
    reactor.addSystemEventTrigger("during", "shutdown", threads.stop)


class _Running:
    """The daemon's start, reloads and stop, driven by the reactor."""

    def __init__(self, reactor: Any, written: LogFile, file: Path | None) -> None:
        self._reactor = reactor
        self._written = written
        self._file = file
        self._reload_wanted = False
        self._supervisor = SystemdNotifier(os.environ, reactor)
        self._starting: Deferred[None] | None = None
        self._daemon: RunningDaemon | None = None
        self._grace_s = 0.0
        self._folder = Path()
        self._stopping = False
        self.code = 0

    def begin(self, config: Config, paused: bool) -> None:
        """Start the daemon; if that fails, write the reason and stop the reactor."""
        # The reactor's own handlers raise an error at a second signal, which `timeout` and many
        # supervisors send.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._reactor.callFromThread(self._stop))
        signal.signal(signal.SIGHUP, lambda *_: self._reactor.callFromThread(self._reload))
        self._grace_s, self._folder = config.period.grace_s, config.state_directory
        self._starting = ensureDeferred(start(self._reactor, config, paused=paused)).addCallbacks(
            self._started, self._failed
        )

    def _started(self, daemon: RunningDaemon) -> None:
        self._daemon = daemon
        self._supervisor.ready(_STATUS)
        if self._reload_wanted:
            self._reload()

    def _reload(self) -> None:
        """Reload the configuration; during the start, remember the reload for later."""
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
            self._reopen_log(configuration)
        self._supervisor.ready(self._daemon.scheduler.configuration or _STATUS)

    def _reopen_log(self, configuration: ConfigurationReload) -> None:
        try:
            self._written.again(configuration.config)
        except OSError as error:
            configuration.report_problem(f"the log continues in its old file: {error.strerror}")

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, CancelledError) and self._stopping:
            sys.stderr.write("merkatd run: the daemon was stopped before it had started\n")
        elif isinstance(error, OSError):
            sys.stderr.write(f"merkatd run: {os_reason(error, error.filename or str(error))}\n")
        elif isinstance(error, _EXPECTED):
            sys.stderr.write(f"merkatd run: {error}{full_disk(self._folder)}\n")
        else:
            sys.stderr.write(f"merkatd run: {failure.getTraceback()}\n")
        self.code = 1
        self._stop()

    def _stop(self) -> None:
        """Stop the reactor, at most once: a second stop is an error in Twisted."""
        if not self._stopping:
            self._stopping = True
            self._supervisor.ending()
            self._reactor.stop()

    async def _end(self) -> None:
        if self._starting is not None:
            await wait_for_end(self._reactor, "the start", self._starting, self._grace_s)
        if self._daemon is not None:
            await self._daemon.stop()
        self._supervisor.stop()

    def end(self) -> Any:
        """Return a Deferred for which the reactor waits; a start under way is finished first."""
        return ensureDeferred(self._end())


RUN = Verb(
    "run",
    summary="run the daemon",
    description="""\
`merkatd run`: run the daemon in the foreground, until SIGTERM or Ctrl-C.""",
    add_arguments=add_run_arguments,
    run=run_daemon,
)
