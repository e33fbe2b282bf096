"""Where the daemon's events are written: a file that can be opened anew, or standard error."""

import contextlib
import sys
from pathlib import Path
from typing import Any, TextIO

from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)

from merkatd.commands.sparing import Sparing
from merkatd.config.configuration import Config


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
