"""`merkatd run`: the daemon, in the foreground, until it is told to end."""

import argparse
import os
import signal
import sys
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)
from twisted.python.failure import Failure

from merkatd.api.ask import ControlError
from merkatd.commands.complaints import complain
from merkatd.commands.configured import add_config, read_config
from merkatd.commands.reactor import asyncio_reactor
from merkatd.commands.supervisor import Supervisor
from merkatd.config.model import Config
from merkatd.daemon import Daemon, StartError, start
from merkatd.database.migrations import SchemaError
from merkatd.database.service import UnavailableError

SUMMARY = "run the daemon"

_EXPECTED = (StartError, ControlError, SchemaError, UnavailableError, OSError)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "--paused",
        action="store_true",
        help="begin no period before `merkatd resume`: for a look with `merkatd plan` first",
    )
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; the work in hand is finished first."""
    config = read_config("run", arguments.config)
    if config is None:
        return 1
    reactor = asyncio_reactor()
    try:
        _begin_logging(config)
    except OSError as error:
        return complain("run", f"{config.log_file}: {error.strerror}")
    running = _Running(reactor)
    reactor.callWhenRunning(running.begin, config, arguments.paused)
    reactor.addSystemEventTrigger("before", "shutdown", running.end)
    reactor.run()
    return running.code


class _Running:
    """The daemon inside the reactor's life."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._supervisor = Supervisor(os.environ, reactor)
        self._starting: Deferred[None] | None = None
        self._daemon: Daemon | None = None
        self._stopping = False
        self.code = 0

    def begin(self, config: Config, paused: bool) -> None:
        """Start it; where that fails, end with the reason."""
        # The reactor's own handlers complain of being told twice, as `timeout` and many a
        # supervisor tell.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._reactor.callFromThread(self._stop))
        self._starting = ensureDeferred(start(self._reactor, config, paused=paused)).addCallbacks(
            self._started, self._failed
        )

    def _started(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._supervisor.ready("Sharing the cloud; `merkatd status` tells more")

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, _EXPECTED):
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
            await self._starting
        if self._daemon is not None:
            await self._daemon.stop()
        self._supervisor.stop()

    def end(self) -> Any:
        """The reactor waits for what this returns; what is half started is started first."""
        return ensureDeferred(self._end())


def _begin_logging(config: Config) -> None:
    """Into the file that the configuration names, else standard error. Raises OSError."""
    stream = sys.stderr
    if config.log_file is not None:
        config.log_file.parent.mkdir(parents=True, exist_ok=True)
        stream = config.log_file.open("a", encoding="utf-8", buffering=1)
    level = LogLevel.levelWithName(str(config.daemon.log_level))
    least: Any = LogLevelFilterPredicate(defaultLogLevel=level)  # Twisted's interfaces
    file: Any = textFileLogObserver(stream)  # have no types
    observer: Any = FilteringLogObserver(file, [least])
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
