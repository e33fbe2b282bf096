"""`merkatd run`: the daemon, in the foreground, until it is told to end."""

import argparse
import sys
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)
from twisted.python.failure import Failure

from merkatd.api.control import ControlError
from merkatd.commands.configured import add_config, read_config
from merkatd.commands.reactor import asyncio_reactor
from merkatd.config import Config
from merkatd.daemon import Daemon, StartError, start
from merkatd.database.migrations import SchemaError

SUMMARY = "run the daemon"

_EXPECTED = (StartError, ControlError, SchemaError, OSError)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; the work in hand is finished first."""
    config = read_config("run", arguments.config)
    if config is None:
        return 1
    reactor = asyncio_reactor()
    _log_to_stderr(config)
    running = _Running(reactor)
    reactor.callWhenRunning(running.begin, config)
    reactor.addSystemEventTrigger("before", "shutdown", running.end)
    reactor.run()
    return running.code


class _Running:
    """The daemon inside the reactor's life."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._daemon: Daemon | None = None
        self.code = 0

    def begin(self, config: Config) -> None:
        """Start it; where that fails, end with the reason."""
        starting = ensureDeferred(start(self._reactor, config))
        starting.addCallbacks(self._started, self._failed)

    def _started(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def _failed(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, _EXPECTED):
            sys.stderr.write(f"merkatd run: {error}\n")
        else:
            sys.stderr.write(f"merkatd run: {failure.getTraceback()}\n")
        self.code = 1
        self._reactor.stop()

    def end(self) -> Any:
        """The reactor waits for what this returns."""
        return None if self._daemon is None else ensureDeferred(self._daemon.stop())


def _log_to_stderr(config: Config) -> None:
    level = LogLevel.levelWithName(str(config.daemon.log_level))
    least: Any = LogLevelFilterPredicate(defaultLogLevel=level)  # Twisted's interfaces
    file: Any = textFileLogObserver(sys.stderr)  # have no types
    observer: Any = FilteringLogObserver(file, [least])
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
