"""A shortage of open files does not fill the disk with log lines."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet import tcp
from twisted.logger import Logger, formatEvent

from merkatd.commands.programs.run_command import LogFile
from merkatd.commands.terminal.log_throttle import LogThrottle
from merkatd.config.configuration import Config
from merkatd.config.process_sections import DaemonSection

_accept: Any = tcp._accept  # where Twisted logs it


class Short:
    """A port of a process that cannot open more files."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.lines: list[str] = []
        self.sparing = LogThrottle(
            lambda event: self.lines.append(_text(event)), lambda: self.now_s
        )
        namespace = tcp.Port._logger.namespace
        self.logger = Logger(namespace, observer=self.sparing)  # type: ignore[arg-type]

    def accept(self) -> tuple[Any, Any]:
        """Fail like the system."""
        raise OSError(errno.EMFILE, "Too many open files")

    def turns(self, number: int) -> None:
        """Run turns of the reactor."""
        spare = SimpleNamespace(available=lambda: False)
        for _ in range(number):
            assert list(_accept(self.logger, range(1), self, spare)) == []


def _text(event: Any) -> str:
    return formatEvent(event)


def test_a_connection_that_cannot_be_accepted_is_logged_once_a_minute() -> None:
    """The next line has the number of omitted ones."""
    short = Short()
    short.turns(1_000)
    short.now_s = 59.0
    short.turns(1_000)
    assert short.lines == ["Could not accept new connection (EMFILE)"]
    short.now_s = 60.0
    short.turns(500)
    more = "Could not accept new connection (EMFILE) (1999 more since the last such line)"
    assert short.lines[1:] == [more]
    short.now_s = 121.0
    short.turns(1)
    assert "(499 more" in short.lines[-1]


def test_all_other_lines_are_logged() -> None:
    """Lines of the daemon and failures are never omitted."""
    short = Short()
    ours = Logger("merkatd.daemon.assembly", observer=short.sparing)  # type: ignore[arg-type]
    for number in range(100):
        ours.info("Could not accept {number}", number=number)
    for _ in range(3):
        try:
            int("a mistake")
        except ValueError:
            short.logger.failure("It failed")
    assert len(short.lines) == 103


def test_the_daemons_log_omits_repeated_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has one such line."""
    begun: list[Any] = []
    beginner = SimpleNamespace(beginLoggingTo=lambda observers, **_: begun.extend(observers))
    monkeypatch.setattr("merkatd.commands.programs.run_command.globalLogBeginner", beginner)
    file = tmp_path / "log"
    written = LogFile(Config(daemon=DaemonSection(log_file=str(file))))
    written.begin()
    short = Short()
    short.logger.observer = begun[0]
    short.turns(100)
    written._stream.close()
    assert file.read_text().count("Could not accept") == 1
