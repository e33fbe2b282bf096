"""`merkatd run`: the daemon, in the foreground, until it is told to end."""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.python.failure import Failure

from merkatd.api.control.control_client import ControlError
from merkatd.base.clock import DaemonThreads
from merkatd.commands.complaints import CONFIGURATION, complain
from merkatd.commands.configured import INSTALLED, add_config, loaded, read_config
from merkatd.commands.private import close_to_others, keep_private
from merkatd.commands.reactor import asyncio_reactor
from merkatd.commands.supervisor import Supervisor
from merkatd.commands.verb import Verb
from merkatd.commands.written import Written
from merkatd.config.configuration import Config
from merkatd.config.errors import ConfigError, Problem
from merkatd.daemon.assembly import Daemon, StartError, start
from merkatd.daemon.open_files import raise_limit
from merkatd.daemon.reload import Reloading
from merkatd.daemon.shutdown import ended
from merkatd.database.database import UnavailableError
from merkatd.database.migrations import SchemaError

_STATUS = "Sharing the cloud; `merkatd status` tells more"
_THREADS = 10
_EXPECTED = (StartError, ControlError, SchemaError, UnavailableError, OSError)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
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
        self._supervisor = Supervisor(os.environ, reactor)
        self._starting: Deferred[None] | None = None
        self._daemon: Daemon | None = None
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

    def _started(self, daemon: Daemon) -> None:
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
